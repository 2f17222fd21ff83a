# syntax=docker/dockerfile:1
# Goodput Lab: dashboard and runner in one image, for amd64 and arm64.
#   docker build -t goodput-lab .                      or for both: docker buildx build --platform linux/amd64,linux/arm64 .
#   docker run -p 8501:8501 -v goodput:/data goodput-lab
# compose.yaml beside this file starts both with everything set.

FROM python:3.11-slim-bookworm AS build
WORKDIR /opt/goodput-lab
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY app ./app
COPY runner ./runner
COPY storage ./storage
COPY sample_data ./sample_data
# the versions that the tests were run with, as wheels alone: no compiler, and the same files everywhere
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip .venv \
    && pip --disable-pip-version-check --python .venv/bin/python install --only-binary :all: -c constraints.txt 'setuptools>=80' \
    && pip --disable-pip-version-check --python .venv/bin/python install --no-build-isolation -c constraints.txt -e . \
    && find .venv -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} + \
    && .venv/bin/python -m compileall -q -j 0 .venv/lib app runner storage

FROM python:3.11-slim-bookworm
# tini collects the ends of processes whose parents are gone, and hands on the signal to stop
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -m 1777 /data
COPY --from=build /opt/goodput-lab /opt/goodput-lab
ENV PATH=/opt/goodput-lab/.venv/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GOODPUT_DATA=/data \
    GOODPUT_HOST=0.0.0.0 \
    GOODPUT_PORT=8501
WORKDIR /data
# any other user works as well: nothing outside /data and /tmp is written
USER 1000:1000
VOLUME /data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['GOODPUT_PORT']}/healthz\", timeout=4)"]
ENTRYPOINT ["tini", "--", "goodput"]
CMD ["--no-browser"]

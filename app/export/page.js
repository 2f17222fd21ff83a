"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { tallies } = JSON.parse(byId("goodput-data").textContent);
  const parts = JSON.parse(byId("goodput-parts").textContent);
  const root = document.documentElement;
  root.classList.add("js");

  // ---- words and numbers, written as the Python side writes them
  const NOTHING = "–";
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, key) => (key in values ? values[key] : all));
  const number = (value, decimals) =>
    value.toLocaleString(parts.lang, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const significant = (v) => {
    if (v === null || v === undefined) return NOTHING;
    const size = Math.abs(v);
    return number(v, size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
  };
  const perSecond = (v, unit) => (v === null || v === undefined ? NOTHING : `${significant(v)}\u00a0${unit}/s`);
  const ms = (v) =>
    Math.abs(v) < 999.5
      ? `${number(v, Math.abs(v) < 10 ? 1 : 0)}\u00a0ms`
      : `${number(v / 1000, Math.abs(v) < 9995 ? 2 : 1)}\u00a0s`;
  const share = (v) => {
    if (v === null || v === undefined) return NOTHING;
    const nearAll = v > 0.99 && v < 1;
    return `${number((nearAll ? Math.min(v, 0.999) : v) * 100, nearAll ? 1 : 0)}\u00a0%`;
  };
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // ---- what the measured requests say about other targets (the same arithmetic as runner.analysis)
  const Z = 1.959963984540054;
  const wilson = (p, n) => {
    const z2 = (Z * Z) / n;
    const centre = (p + z2 / 2) / (1 + z2);
    const half = (Z / (1 + z2)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n));
    return [Math.min(Math.max(0, centre - half), p), Math.max(Math.min(1, centre + half), p)];
  };

  /** Per class {met, judged, effective} of one cell at the steps in `targets` [[ttft step, gap step], …]. */
  const count = (cell, targets) => {
    const out = targets.map(() => ({ met: 0, judged: 0, effective: 0 }));
    for (const [index, outcome, ttft, gap, n] of cell.rows) {
      const [t, g] = targets[index];
      if (outcome === 2 && ttft <= t) continue; // cut by our own end of run before it was late: nobody knows
      out[index].judged += n;
      if (outcome === 0 && ttft <= t && gap <= g) out[index].met += n;
    }
    out.forEach((c, i) => (c.effective = Math.max(c.judged * cell.n_eff[i], 0.5)));
    return out;
  };

  /** Goodput, share and interval of counts over a window, all classes together; `low` is the worst class's bound. */
  const judge = (classes, windowS) => {
    const sum = (key) => classes.reduce((total, c) => total + c[key], 0);
    const met = sum("met"), judged = sum("judged");
    const p = judged ? met / judged : null;
    const [low, high] = judged ? wilson(p, sum("effective")) : [null, null];
    const bounds = classes.filter((c) => c.judged).map((c) => wilson(c.met / c.judged, c.effective)[0]);
    return { goodput: windowS ? met / windowS : 0, share: p, low, high, n: judged, worst: Math.min(...bounds, 1) };
  };

  /** Cells and pooled points (repeats of one setting and load) at these targets, with frontier and pick. */
  const evaluate = (targets, alpha) => {
    const windows = Object.values(tallies.cells).map((c) => c.window_s).filter(Boolean).sort((a, b) => a - b);
    const usual = windows[windows.length >> 1] || null;
    const cells = new Map(), points = new Map();
    for (const facts of parts.cells) {
      const cell = tallies.cells[facts.cell];
      if (!cell) continue;
      const classes = count(cell, targets), windowS = cell.window_s || usual;
      cells.set(facts.cell, { ...facts, ...judge(classes, windowS), on: false });
      const point = points.get(facts.group) || { facts, valid: true, windowS: 0, classes: null };
      point.windowS += windowS;
      point.valid = point.valid && facts.valid;
      point.classes = point.classes
        ? point.classes.map((c, i) => ({ met: c.met + classes[i].met, judged: c.judged + classes[i].judged, effective: c.effective + classes[i].effective }))
        : classes;
      points.set(facts.group, point);
    }
    const valid = [...cells.values()].filter((c) => c.valid && c.raw !== null && c.raw !== undefined);
    for (const c of valid) {
      c.on = !valid.some((o) => o.raw >= c.raw && o.goodput >= c.goodput && (o.raw > c.raw || o.goodput > c.goodput));
    }
    const judged = [...points.values()].map((p) => ({ ...p, ...judge(p.classes, p.windowS) })).filter((p) => p.valid);
    const qualified = judged.filter((p) => p.worst >= alpha);
    const best = (qualified.length ? qualified : judged).reduce((a, b) => (!a || b.goodput > a.goodput ? b : a), null);
    return { cells, pick: best, met: qualified.length > 0 };
  };

  // ---- state: sliders and theme
  const inputs = tallies ? tallies.classes.map((_, i) => [byId(`ttft-${i}`), byId(`gap-${i}`)]) : [];
  const alphaInput = byId("alpha");
  const steps = () => inputs.map((pair) => pair.map((input) => Number(input.value)));
  const moved = () =>
    tallies &&
    (tallies.classes.some((k, i) => steps()[i][0] !== k.ttft || steps()[i][1] !== k.gap) ||
      Number(alphaInput.value) !== parts.alpha);
  let printing = false; // paper is white
  const isDark = () =>
    !printing &&
    (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const narrow = () => innerWidth < 560;

  // ---- figures
  const copyOf = (name, dark) => {
    const text = JSON.stringify(parts.figures[name]);
    return JSON.parse(dark ? text.replaceAll(parts.inks[0], parts.inks[1]) : text);
  };

  const moveFrontier = (fig, now) => {
    const top = Math.max(...[...now.cells.values()].map((c) => c.goodput), 1e-9);
    let path = null;
    for (const trace of fig.data) {
      const role = trace.meta && trace.meta.role;
      if (role === "path") path = trace;
      if (role !== "points") continue;
      trace.customdata.forEach((data, i) => {
        const c = now.cells.get(data[0]);
        if (!c) return;
        trace.y[i] = c.goodput;
        data[1] = fill(parts.words.goodput, { goodput: perSecond(c.goodput, "req"), raw: perSecond(c.raw, "tok") });
        data[2] = fill(parts.words.share, { share: share(c.share), low: share(c.low), high: share(c.high), n: number(c.n, 0) });
        const colour = c.on || !c.valid ? trace.meta.colour : parts.grey;
        trace.marker.color[i] = colour;
        trace.marker.line.color[i] = colour;
        trace.marker.size[i] = c.on ? 12 : 8;
        trace.marker.opacity[i] = c.on || !c.valid ? 1 : 0.75;
      });
      path.y = trace.y.slice();
    }
    const of = (role) => fig.data.find((t) => t.meta && t.meta.role === role);
    const on = [...now.cells.values()].filter((c) => c.on).sort((a, b) => a.raw - b.raw);
    of("frontier").x = on.map((c) => c.raw);
    of("frontier").y = on.map((c) => c.goodput);
    const rated = [...now.cells.values()].filter((c) => c.raw !== null && c.raw !== undefined);
    const raw = rated.reduce((a, b) => (!a || b.raw > a.raw ? b : a), null);
    const pick = now.pick && now.cells.get(now.pick.facts.cell);
    const same = pick && raw && pick.cell === raw.cell;
    const place = (trace, c, text) => Object.assign(trace, c ? { x: [c.raw], y: [c.goodput], text: [text] } : { x: [], y: [], text: [] });
    place(of("pick"), pick, plain(same ? parts.words.same : parts.words.pick));
    place(of("raw"), same ? null : raw, of("raw").meta.label);
    fig.layout.yaxis.range = [-0.04 * top, 1.18 * top];
  };

  const moveTargets = (fig, targets) => {
    for (const metric of ["ttft_ms", "gap_ms"]) {
      const gap = metric === "gap_ms";
      const values = new Map(
        tallies.classes.map((k, i) => [k.name, k[gap ? "gap_steps_ms" : "ttft_steps_ms"][targets[i][gap ? 1 : 0]]]),
      );
      for (const trace of fig.data) {
        if (!trace.meta || trace.meta.role !== "target" || trace.meta.metric !== metric) continue;
        const value = values.get(trace.meta.class);
        if (value === undefined) continue;
        const same = [...values.keys()].filter((name) => values.get(name) === value);
        trace.y = [value, value];
        trace.text = ["", same[0] === trace.meta.class ? plain(fill(parts.words.target, { name: same.join(", "), value: ms(value) })) : ""];
      }
    }
  };

  const pickPercentile = (fig) => {
    for (const trace of fig.data) {
      if (trace.meta && trace.meta.role === "percentile") trace.visible = trace.meta.percentile === byId("percentile").value;
    }
  };

  const draw = (now) => {
    const dark = isDark();
    for (const name of Object.keys(parts.figures)) {
      const slot = byId(`fig-${name}`);
      if (!slot) continue;
      const fig = copyOf(name, dark);
      if (name === "frontier" && now) moveFrontier(fig, now);
      if (name === "percentiles") {
        pickPercentile(fig);
        if (now) moveTargets(fig, steps());
      }
      const layout = { ...fig.layout, template: parts.templates[Number(dark)], autosize: true, dragmode: narrow() ? false : "zoom" };
      // not transparent here: a saved PNG must be readable wherever it is posted
      layout.paper_bgcolor = printing ? "#ffffff" : getComputedStyle(slot.closest("section")).backgroundColor;
      if (narrow()) layout.height += 50; // the legend takes more lines
      slot.style.height = `${layout.height}px`;
      Plotly.react(slot, fig.data, layout, {
        responsive: true,
        displaylogo: false,
        displayModeBar: narrow() ? false : "hover",
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
        toImageButtonOptions: { filename: `goodput-${name}`, scale: 2 },
        locale: "en",
      });
    }
  };

  // ---- words, grid and table
  const original = { headline: byId("headline").textContent, detail: byId("detail").textContent };
  for (const element of document.querySelectorAll(".tile dd, #paste, #against, #numbers td, #heat td")) {
    element.dataset.was = element.textContent;
    if (element.closest("#heat")) element.dataset.class = element.className;
  }

  const tellVerdict = (now) => {
    const p = now.pick;
    if (!p) return;
    byId("headline").textContent = fill(parts.words[now.met ? "keeps" : p.share >= Number(alphaInput.value) ? "unsure" : "missed"], { setting: p.facts.name, goodput: perSecond(p.goodput, "req") });
    byId("detail").textContent = fill(parts.words.detail, { load: p.facts.load, share: share(p.share), low: share(p.low), high: share(p.high), n: number(p.n, 0) });
    const tiles = { goodput: perSecond(p.goodput, "req"), share: share(p.share), ttft: p.facts.ttft, gap: p.facts.gap, raw: perSecond(p.facts.raw, "tok") };
    for (const [key, text] of Object.entries(tiles)) if (byId(`tile-${key}`)) byId(`tile-${key}`).textContent = text;
    if (byId("paste") && p.facts.paste) byId("paste").textContent = p.facts.paste;
    if (byId("against")) byId("against").textContent = "";
  };

  const tellTable = (now) => {
    for (const row of document.querySelectorAll("#numbers tbody tr")) {
      const c = now.cells.get(Number(row.dataset.cell));
      if (!c) continue;
      const texts = { goodput_per_s: significant(c.goodput), share: share(c.share), share_low: share(c.low), share_high: share(c.high) };
      if (c.valid) texts.state = c.on ? parts.words.frontier : parts.words.ok;
      for (const [key, text] of Object.entries(texts)) row.querySelector(`[data-key="${key}"]`).textContent = text;
    }
  };

  const tellGrid = (now) => {
    const top = Math.max(...[...now.cells.values()].map((c) => c.goodput), 1e-9);
    document.querySelectorAll("#heat tbody tr").forEach((row, y) =>
      row.querySelectorAll("td").forEach((square, x) => {
        const all = (parts.squares[y][x] || []).map((id) => now.cells.get(id)).filter(Boolean);
        const valid = all.filter((c) => c.valid);
        const best = (valid.length ? valid : all).reduce((a, b) => (!a || b.goodput > a.goodput ? b : a), null);
        if (!best) return;
        square.className = `${best.valid ? "ok" : "invalid"} h${Math.round((best.goodput / top) * parts.heat_levels)}`;
        square.textContent = significant(best.goodput) + (best.valid ? "" : " *");
        square.dataset.cell = best.cell;
        square.title = `${best.load} · ${perSecond(best.goodput, "req")} · ${share(best.share)}`;
      }),
    );
  };

  const restore = () => {
    byId("headline").textContent = original.headline;
    byId("detail").textContent = original.detail;
    for (const element of document.querySelectorAll("[data-was]")) {
      element.textContent = element.dataset.was;
      if (element.dataset.class !== undefined) element.className = element.dataset.class;
    }
  };

  const markPick = (ids) => {
    for (const row of document.querySelectorAll("#numbers tbody tr")) row.classList.toggle("picked", ids.includes(Number(row.dataset.cell)));
    document.querySelectorAll("#heat tbody tr").forEach((row, y) =>
      row.querySelectorAll("td").forEach((square, x) =>
        square.classList.toggle("picked", (parts.squares[y][x] || []).some((id) => ids.includes(id))),
      ),
    );
  };

  const refresh = () => {
    const now = moved() ? evaluate(steps(), Number(alphaInput.value)) : null;
    if (tallies) {
      tallies.classes.forEach((k, i) => {
        byId(`ttft-${i}-out`).textContent = ms(k.ttft_steps_ms[steps()[i][0]]);
        byId(`gap-${i}-out`).textContent = ms(k.gap_steps_ms[steps()[i][1]]);
        inputs[i][0].setAttribute("aria-valuetext", byId(`ttft-${i}-out`).textContent);
        inputs[i][1].setAttribute("aria-valuetext", byId(`gap-${i}-out`).textContent);
      });
      byId("reset").disabled = !now;
      byId("note").textContent = now ? parts.words.moved : "";
    }
    restore();
    if (now) {
      tellVerdict(now);
      tellTable(now);
      tellGrid(now);
    }
    const pick = now ? now.pick && parts.cells.filter((c) => c.group === now.pick.facts.group).map((c) => c.cell) : [parts.pick];
    markPick(pick || []);
    byId("verdict").className = (now ? now.met : parts.met) ? "pass" : "fail";
    if (window.Plotly) draw(now);
  };

  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      refresh();
    });
  };

  // ---- buttons
  const copy = async (button, text) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = parts.words.copied;
      setTimeout(() => (button.textContent = label), 1500);
    } catch {
      // no clipboard here (an old browser, a refused permission): show it, selected
      const area = document.createElement("textarea");
      area.className = "copy";
      area.value = text;
      area.setAttribute("aria-label", label);
      byId("verdict").append(area);
      area.select();
    }
  };
  byId("copy-md").addEventListener("click", (event) => copy(event.currentTarget, parts.markdown));
  if (byId("copy-line")) byId("copy-line").addEventListener("click", (event) => copy(event.currentTarget, byId("paste").textContent));
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    soon();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  byId("percentile").addEventListener("change", soon);
  if (tallies) {
    byId("sliders").addEventListener("input", soon);
    byId("sliders").addEventListener("submit", (event) => event.preventDefault());
    byId("alpha").value = String(parts.alpha);
    byId("reset").addEventListener("click", () => {
      tallies.classes.forEach((k, i) => {
        inputs[i][0].value = k.ttft;
        inputs[i][1].value = k.gap;
      });
      alphaInput.value = String(parts.alpha);
      refresh();
    });
  }

  for (const [name, value] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      printing = value;
      refresh();
    });
  }

  // ---- plotly: unpack, run (its hash is in the page's policy), draw
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(byId("plotly-packed").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };
  refresh();
  unpack().then(refresh, () => root.classList.add("no-figures"));
})();

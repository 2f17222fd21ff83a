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
  const [DECIMAL, THOUSANDS] = parts.marks;
  /** To so many decimals, as Python rounds: exact, and halves to the even digit. */
  const rounded = (value, decimals) => {
    const exact = value.toFixed(decimals + 60);
    const kept = exact.slice(0, -60).replace(/\.$/, "");
    return /^50*$/.test(exact.slice(-60)) && /[02468]$/.test(kept) ? kept : value.toFixed(decimals);
  };
  const number = (value, decimals) => {
    const [whole, rest] = rounded(value, decimals).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, THOUSANDS) + (rest ? DECIMAL + rest : "");
  };
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
  const { z: Z, t: T95, batches: BATCHES, smallest_batch: SMALLEST_BATCH, crowd_share: CROWD_SHARE, paired_crowd: PAIRED_CROWD } = parts.stat;
  const wilson = (p, n) => {
    const z2 = (Z * Z) / n;
    const centre = (p + z2 / 2) / (1 + z2);
    const half = (Z / (1 + z2)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n));
    return [Math.min(Math.max(0, centre - half), p), Math.max(Math.min(1, centre + half), p)];
  };

  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
  const variance = (values) => {
    const m = mean(values);
    return values.reduce((sum, v) => sum + (v - m) * (v - m), 0) / (values.length - 1);
  };
  const batchSize = (values) => Math.floor(values.length / BATCHES);
  const batchMeans = (values) => {
    const size = batchSize(values);
    if (size < SMALLEST_BATCH) return null;
    return Array.from({ length: BATCHES }, (_, i) => mean(values.slice(i * size, (i + 1) * size)));
  };
  const t95 = (freedom) => T95[freedom - 1];
  const batchEffect = (values) => {
    const means = batchMeans(values);
    const spread = means ? (variance(values) * (values.length - 1)) / values.length : 0;
    const ratio = spread > 1e-12 ? (variance(means) * batchSize(values)) / spread : 0;
    return ratio > 1 ? ratio * (t95(BATCHES - 1) / Z) ** 2 : 1;
  };
  const designEffect = (met, crowd) => Math.max(batchEffect(met), CROWD_SHARE * crowd);
  /** Of several classes together. */
  const crowdOf = (crowds) => 1 + crowds.reduce((sum, c) => sum + c - 1, 0);

  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const DIGIT = new Map([...DIGITS].map((letter, i) => [letter, i]));
  /** [[place in cell.rows, request number], …] in order of arrival. */
  const unfold = (order) => {
    const numbers = order.requests.flatMap(([first, n]) => Array.from({ length: n }, (_, i) => first + i));
    return numbers.map((number, i) => [DIGIT.get(order.kinds[2 * i]) * 64 + DIGIT.get(order.kinds[2 * i + 1]), number]);
  };
  const arrivals = new Map();
  if (tallies) for (const [id, cell] of Object.entries(tallies.cells)) if (cell.order) arrivals.set(Number(id), unfold(cell.order));

  /** 1 met, 0 missed, null unknown: cut by our own end of run before it was late. `targets`: [[ttft step, gap step], …]. */
  const verdictOf = ([index, outcome, ttft, gap], targets) => {
    const [t, g] = targets[index];
    if (outcome === 2 && ttft <= t) return null;
    return outcome === 0 && ttft <= t && gap <= g ? 1 : 0;
  };

  const none = () => ({ scheduled: 0, met: 0, judged: 0, effective: 0 });
  const add = (a, b) => ({ scheduled: a.scheduled + b.scheduled, met: a.met + b.met, judged: a.judged + b.judged, effective: a.effective + b.effective });
  /** Counts of one cell: per class, together, and {request: verdict} where the order is known. `effective`: requests
   * that count as independent. */
  const count = (id, cell, targets, repeat) => {
    const verdicts = cell.rows.map((row) => verdictOf(row, targets));
    const classes = targets.map(none);
    cell.rows.forEach(([index, , , , n], i) => {
      classes[index].scheduled += n;
      if (verdicts[i] === null) return;
      classes[index].judged += n;
      classes[index].met += n * verdicts[i];
    });
    const order = arrivals.get(id);
    if (!order) {
      classes.forEach((c, i) => (c.effective = c.judged && Math.max(c.judged * cell.n_eff[i], 0.5)));
      return { classes, all: classes.reduce(add, none()), met: null };
    }
    const judged = order.filter(([kind]) => verdicts[kind] !== null);
    const series = (index) => judged.filter(([kind]) => index === null || cell.rows[kind][0] === index).map(([kind]) => verdicts[kind]);
    classes.forEach((c, i) => (c.effective = c.judged / designEffect(series(i), cell.crowd[i])));
    const all = { ...classes.reduce(add, none()), effective: judged.length / designEffect(series(null), crowdOf(cell.crowd)) };
    // one number a request, the same in every setting: repeat, request, class
    const met = judged.map(([kind, number]) => [(repeat * 2 ** 32 + number) * 64 + cell.rows[kind][0], verdicts[kind]]);
    return { classes, all, met };
  };

  const boundsOf = (c) => (c.judged ? wilson(c.met / c.judged, c.effective) : null);
  /** Goodput, share and interval of counts over a window. */
  const told = (c, windowS) => {
    const [low, high] = boundsOf(c) || [null, null];
    return { goodput: windowS && c.judged ? c.met / windowS : null, share: c.judged ? c.met / c.judged : null, low, high, n: c.judged };
  };

  // ---- the choice (the same rules as runner.analysis.choice)
  const WORK_TOLERANCE = 0.05;
  const SAME_REQUESTS = 0.95;
  /** The first of the largest by a list of keys, as Python's max. */
  const largest = (items, keys) =>
    items.reduce((best, item) => {
      if (!best) return item;
      const a = keys(item), b = keys(best);
      const i = a.findIndex((v, k) => v !== b[k]);
      return i >= 0 && a[i] > b[i] ? item : best;
    }, null);

  const poolPoint = (group) => {
    const clean = group.filter((c) => !c.doubt && !c.late);
    const usable = clean.length ? clean : group;
    const seconds = usable.reduce((sum, c) => sum + c.windowS, 0);
    const classes = usable[0].classes.map((_, i) => usable.map((c) => c.classes[i]).reduce(add)).filter((c) => c.scheduled);
    const all = classes.reduce(add, none());
    return {
      cells: usable.map((c) => c.cell),
      top: largest(usable, (c) => [c.goodput]),
      at: group[0].at,
      change: group[0].change,
      valid: usable.some((c) => !c.doubt && !c.late && c.raw !== null && c.goodput !== null),
      overload: group.some((c) => c.overload),
      classes,
      all,
      share: all.judged ? all.met / all.judged : null,
      goodput: all.met / seconds,
      work: usable.reduce((sum, c) => sum + c.work, 0) / usable.length,
      seconds,
      met: usable.every((c) => c.met) ? new Map(usable.flatMap((c) => c.met).sort((a, b) => a[0] - b[0])) : null,
    };
  };

  const qualifies = (p, alpha) =>
    p.valid && !p.overload && p.classes.length > 0 && p.classes.every((c) => c.judged && boundsOf(c)[0] >= alpha);

  const halfWidth = (p) => {
    const [low, high] = boundsOf(p.all) || [0, 1];
    return (((high - low) / 2) * p.all.judged) / p.seconds;
  };
  /** True if the difference in goodput lies within its 95 % interval: paired where both met the same requests. */
  const isNoise = (a, b) => {
    const d = [];
    if (a.at === b.at && a.met && b.met) for (const [key, met] of a.met) if (b.met.has(key)) d.push(met - b.met.get(key));
    // fewer in common: a fixed number at once let the faster one answer more, or one was cut
    const same = d.length && d.length >= SAME_REQUESTS * Math.max(a.met.size, b.met.size);
    if (!same) return Math.abs(a.goodput - b.goodput) <= Math.hypot(halfWidth(a), halfWidth(b));
    const deff = Math.max(...[a, b].map((p) => (p.all.judged ? p.all.judged / p.all.effective : 1)));
    const effect = Math.max(batchEffect(d), deff > 1 ? PAIRED_CROWD * deff : 1);
    const total = d.length / effect + 2;
    const centre = (mean(d) * (d.length / effect)) / total;
    const unequal = d.filter((v) => v).length / effect;
    const error = Math.sqrt(((unequal + 1) / total - centre * centre) / total);
    return Math.abs(centre) <= Z * error;
  };

  const choose = (points, alpha) => {
    const candidates = points.filter((p) => qualifies(p, alpha));
    if (!candidates.length) {
      const judged = points.filter((p) => p.classes.length);
      return { pick: largest(judged, (p) => [p.valid, !p.overload, p.goodput, p.work]), met: false };
    }
    const best = largest(candidates, (p) => [p.goodput, p.work]);
    const equal = candidates.filter((p) => p === best || isNoise(best, p));
    const work = Math.max(...equal.map((p) => p.work));
    const busy = equal.filter((p) => p.work >= (1 - WORK_TOLERANCE) * work);
    return { pick: largest(busy, (p) => [-p.change[0], -p.change[1], p.goodput]), met: true };
  };

  /** Cells and pooled points (repeats of one setting and load) at these targets, with frontier and pick. */
  const evaluate = (targets, alpha) => {
    const windows = Object.values(tallies.cells).map((c) => c.window_s).filter(Boolean).sort((a, b) => a - b);
    const usual = windows[windows.length >> 1] || null;
    const shortest = Math.min(...targets.map(([step], i) => tallies.classes[i].ttft_steps_ms[step]));
    const lateFrom = Math.max(10, 0.01 * shortest); // ms of send lag, as the analysis warns of it
    const cells = new Map(), groups = new Map();
    for (const facts of parts.cells) {
      const cell = tallies.cells[facts.cell];
      if (!cell) continue;
      const windowS = cell.window_s || usual;
      const late = cell.lag_ms === null || cell.lag_ms === undefined ? facts.late : cell.lag_ms > lateFrom;
      const counts = count(facts.cell, cell, targets, facts.repeat);
      const one = { ...facts, ...counts, ...told(counts.all, windowS), windowS, late, on: false };
      one.valid = !one.doubt && !late && !one.overload && one.goodput !== null && typeof one.raw === "number";
      cells.set(facts.cell, one);
      groups.set(facts.group, [...(groups.get(facts.group) || []), one]);
    }
    const valid = [...cells.values()].filter((c) => c.valid);
    for (const c of valid) {
      c.on = !valid.some((o) => o.raw >= c.raw && o.goodput >= c.goodput && (o.raw > c.raw || o.goodput > c.goodput));
    }
    return { cells, ...choose([...groups.values()].map(poolPoint), alpha) };
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
  const LABEL_PLACES = ["top center", "top left", "top right", "bottom left", "bottom right", "bottom center", "middle left", "middle right"];
  const LABEL_PLOTS = [[700, 300], [280, 200]];
  const copyOf = (name, dark) => {
    const text = JSON.stringify(parts.figures[name]);
    return JSON.parse(dark ? text.replaceAll(parts.inks[0], parts.inks[1]) : text);
  };

  /** What the writing beside a mark covers, in pixels: as app.views.label_places, which has the reasons. */
  const labelBox = (label, place, [wide, tall]) => {
    const off = label.size / 2 / 0.8 + 1;
    const [up, aside] = place.split(" ");
    const foot = (1 - label.y) * tall + { top: -7 - off, middle: 1, bottom: 10 + off }[up];
    const long = [...label.text].reduce((sum, letter) => sum + (letter.codePointAt(0) >= 0x2e80 ? 13 : 7), 0);
    const left = label.x * wide + { left: -off - long, center: -long / 2, right: off }[aside];
    return [left, foot - 11, left + long, foot + 3];
  };
  const crosses = (box, a, b) => {
    let [enters, leaves] = [0, 1];
    for (const axis of [0, 1]) {
      const [step, low, high] = [b[axis] - a[axis], box[axis] - a[axis], box[axis + 2] - a[axis]];
      if (step === 0) {
        if (low > 0 || high < 0) return false;
        continue;
      }
      enters = Math.max(enters, Math.min(low / step, high / step));
      leaves = Math.min(leaves, Math.max(low / step, high / step));
    }
    return enters < leaves;
  };
  const placeCost = (label, place, points, lines) => {
    let cost = 0.01 * LABEL_PLACES.indexOf(place);
    for (const [wide, tall] of LABEL_PLOTS) {
      const box = labelBox(label, place, [wide, tall]);
      if (box[0] < -14 || box[2] > wide + 12 || box[1] < -20 || box[3] > tall) cost += 1000;
      for (const { x, y, size } of points) {
        const [across, down, r] = [x * wide, (1 - y) * tall, size / 2];
        if (box[0] - r < across && across < box[2] + r && box[1] - r < down && down < box[3] + r) cost += 10;
      }
      const at = ([x, y]) => [x * wide, (1 - y) * tall];
      for (const line of lines) for (let i = 1; i < line.length; i++) cost += crosses(box, at(line[i - 1]), at(line[i]));
    }
    return cost;
  };
  const togetherCost = (labels, taken) => {
    let cost = 0;
    for (const plot of LABEL_PLOTS) {
      const boxes = labels.map((label, i) => labelBox(label, taken[i], plot));
      boxes.forEach((a, i) => {
        const far = labels.map(({ x, y }) =>
          Math.hypot(
            Math.max(a[0] - x * plot[0], 0, x * plot[0] - a[2]),
            Math.max(a[1] - (1 - y) * plot[1], 0, (1 - y) * plot[1] - a[3]),
          ),
        );
        if (far[i] > Math.min(...far)) cost += 300;
        for (const b of boxes.slice(0, i)) if (a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]) cost += 100;
      });
    }
    return cost;
  };
  const placeLabels = (fig) => {
    const log = fig.layout.xaxis.type === "log";
    const across = (x) => (log ? Math.log10(x) : x);
    const known = fig.data.flatMap((t) => t.x.filter((x) => x !== null).map(across));
    const [low, span] = [Math.min(...known), Math.max(...known) - Math.min(...known)];
    const [bottom, top] = fig.layout.yaxis.range;
    const at = (t) => t.x.map((x, i) => [span ? (across(x) - low + 0.07 * span) / (1.14 * span) : 0.5, (t.y[i] - bottom) / (top - bottom)]);
    const of = (role) => fig.data.filter((t) => t.meta && t.meta.role === role);
    const marked = [...of("pick"), ...of("raw")].filter((t) => t.x.length);
    const labels = marked.map((t) => ({ x: at(t)[0][0], y: at(t)[0][1], text: t.text[0], size: t.marker.size }));
    const dots = of("points").flatMap((t) => at(t).map(([x, y], i) => ({ x, y, size: t.marker.size[i] })));
    const stepped = (line) => line.flatMap((p, i) => (i ? [[line[i - 1][0], p[1]], p] : [p]));
    const lines = [...of("path").map(at), ...of("frontier").map(at).map(stepped)];
    const costs = labels.map((label) => LABEL_PLACES.map((place) => placeCost(label, place, [...dots, ...labels], lines)));
    let ways = [[]];
    for (const _ of labels) ways = ways.flatMap((way) => LABEL_PLACES.map((place) => [...way, place]));
    const cost = (way) => way.reduce((sum, place, i) => sum + costs[i][LABEL_PLACES.indexOf(place)], togetherCost(labels, way));
    const best = ways.map((way) => [cost(way), way]).reduce((a, b) => (b[0] < a[0] ? b : a))[1];
    marked.forEach((trace, i) => (trace.textposition = best[i]));
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
        trace.marker.symbol[i] = trace.marker.symbol[i].replace("-open", "") + (c.valid ? "" : "-open");
      });
      path.y = trace.y.slice();
    }
    const of = (role) => fig.data.find((t) => t.meta && t.meta.role === role);
    const on = [...now.cells.values()].filter((c) => c.on).sort((a, b) => a.raw - b.raw);
    of("frontier").x = on.map((c) => c.raw);
    of("frontier").y = on.map((c) => c.goodput);
    const rated = [...now.cells.values()].filter((c) => c.raw !== null && c.raw !== undefined);
    const raw = rated.reduce((a, b) => (!a || b.raw > a.raw ? b : a), null);
    const pick = now.pick && now.pick.top;
    const same = pick && raw && pick.cell === raw.cell;
    const place = (trace, c, text) => Object.assign(trace, c ? { x: [c.raw], y: [c.goodput], text: [text] } : { x: [], y: [], text: [] });
    place(of("pick"), pick, plain(same ? parts.words.same : parts.words.pick));
    place(of("raw"), same ? null : raw, of("raw").meta.label);
    fig.layout.yaxis.range = [-0.04 * top, 1.18 * top];
    placeLabels(fig);
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
      const layout = { ...fig.layout, separators: DECIMAL + THOUSANDS, template: parts.templates[Number(dark)], autosize: true, dragmode: narrow() ? false : "zoom" };
      // not transparent here: a saved PNG must be readable wherever it is posted
      layout.paper_bgcolor = printing ? "#ffffff" : getComputedStyle(slot.closest("section")).backgroundColor;
      if (narrow()) layout.height += 50; // the legend takes more lines
      slot.style.height = `${layout.height}px`;
      Plotly.react(slot, fig.data, layout, {
        responsive: true,
        displaylogo: false,
        displayModeBar: narrow() ? false : "hover",
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
        toImageButtonOptions: { filename: `${parts.file}-${name}`, scale: 2 },
        locale: "page",
      });
    }
  };

  // ---- words, grid and table
  const original = { headline: byId("headline").textContent, detail: byId("detail").textContent };
  for (const element of document.querySelectorAll(".tile dd, #paste, #against, #numbers td, #heat td")) {
    element.dataset.was = element.textContent;
    if (element.closest("#heat")) element.dataset.class = element.className;
  }

  /** Which sentence the pick deserves, in the order in which app.views.verdict asks. */
  const headlineKey = (now, alpha) => {
    if (now.met) return "keeps";
    const unclean = (c) => !c.overload && !c.valid;
    if (unclean(now.pick.top)) return "doubtful";
    if ([...now.cells.values()].some((c) => unclean(c) && c.low !== null && c.low >= alpha)) return "again";
    return now.pick.share >= alpha ? "unsure" : "missed";
  };

  const tellVerdict = (now) => {
    if (!now.pick) return;
    const p = now.pick.top;
    byId("headline").textContent = fill(parts.words[headlineKey(now, Number(alphaInput.value))], { setting: p.name, goodput: perSecond(p.goodput, "req") });
    byId("detail").textContent = fill(parts.words.detail, { load: p.load, share: share(p.share), low: share(p.low), high: share(p.high), n: number(p.n, 0) });
    const tiles = { goodput: perSecond(p.goodput, "req"), share: share(p.share), ttft: p.ttft, gap: p.gap, raw: perSecond(p.raw, "tok") };
    for (const [key, text] of Object.entries(tiles)) if (byId(`tile-${key}`)) byId(`tile-${key}`).textContent = text;
    if (byId("paste") && p.paste) byId("paste").textContent = p.paste;
    if (byId("against")) byId("against").textContent = "";
  };

  /** What the table says of a point; undefined where that does not hang on the targets. */
  const stateOf = (c) => {
    if (c.valid) return c.on ? parts.words.frontier : parts.words.ok;
    return c.late && !c.doubt && !c.overload ? parts.words.late : undefined;
  };

  const tellTable = (now) => {
    for (const row of document.querySelectorAll("#numbers tbody tr")) {
      const c = now.cells.get(Number(row.dataset.cell));
      if (!c) continue;
      const texts = { goodput_per_s: significant(c.goodput), share: share(c.share), share_low: share(c.low), share_high: share(c.high) };
      if (stateOf(c)) texts.state = stateOf(c);
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
    markPick(now ? (now.pick ? now.pick.cells : []) : parts.pick);
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

  // ---- the table as CSV (the same guard against formulas as app.views.table)
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const csv = () => {
    const { keys, cells, rows } = parts.csv;
    const now = moved() ? evaluate(steps(), Number(alphaInput.value)) : null;
    const changed = (c) => ({ goodput_per_s: c.goodput, share: c.share, share_low: c.low, share_high: c.high, state: stateOf(c) });
    const lines = rows.map((row, i) => {
      const c = now && now.cells.get(cells[i]);
      const values = c ? changed(c) : {};
      return row.map((value, k) => (values[keys[k]] === undefined ? value : values[keys[k]]));
    });
    return [keys, ...lines].map((line) => line.map(csvCell).join(",") + "\r\n").join("");
  };
  const save = (text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.download = `${parts.file}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
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
      (button.closest("section") || byId("verdict")).append(area);
      area.select();
    }
  };
  byId("copy-md").addEventListener("click", (event) => copy(event.currentTarget, parts.markdown));
  if (byId("copy-line")) byId("copy-line").addEventListener("click", (event) => copy(event.currentTarget, byId("paste").textContent));
  byId("copy-csv").addEventListener("click", (event) => copy(event.currentTarget, csv()));
  byId("save-csv").addEventListener("click", () => save(csv()));
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
  const ready = () => {
    Plotly.register({ moduleType: "locale", name: "page", dictionary: parts.bar, format: {} });
    refresh();
  };
  unpack().then(ready, () => root.classList.add("no-figures"));
})();

/* The script of a report's page; `shared.js` has what all pages share.

   1. null is infinite or unknown: "∞" in text, a gap in a curve, a line of text under a chart.
   2. A section without data is not made. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const norm = data.norm === "linf" ? "ℓ∞" : "ℓ2";
  for (const item of [...data.prices, ...data.table.columns]) item.label = item.label.replace("c* = ", "c*\u00a0=\u00a0");

  // Up to seven attacks have a colour each. More have the colour of their family, and the line and
  // marker of their method.
  const COLOURS = 7;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const STROKES = ["", "6 3", "2 2", "6 2 2 2", "10 3", "10 2 2 2"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
  const OUTLINES = {
    square: "7,2 15,2 15,10 7,10", diamond: "11,1 16,6 11,11 6,6", "triangle-up": "11,1 16,10 6,10",
    "triangle-down": "11,11 16,2 6,2", cross: "9.5,1 12.5,1 12.5,4.5 16,4.5 16,7.5 12.5,7.5 12.5,11 9.5,11 9.5,7.5 6,7.5 6,4.5 9.5,4.5",
    x: "7,4 9,2 11,4 13,2 15,4 13,6 15,8 13,10 11,8 9,10 7,8 9,6",
    star: "11,0 12.4,4.1 16.7,4.1 13.2,6.7 14.5,10.9 11,8.3 7.5,10.9 8.8,6.7 5.3,4.1 9.6,4.1",
  };
  const TERMS = {
    "c*": "What a flagged answer costs; any other answer costs 1",
    flagged: "A query is flagged if its answer is the image's own class, or one of the study's flagged classes; it costs c*, any "
      + "other costs 1",
    "hard budget": "A query is sent only if its most expensive answer is affordable; the adversarial image with the "
      + "smallest distance found so far counts",
    "significantly different": "The 95\u202f% interval of the difference of the medians, over the same images, excludes 0; "
      + "with fewer than six images no difference is significant",
  };
  const METHODS = {
    VA: "the attack as published (vanilla)",
    AS: "asymmetric search, which sends fewer flagged queries",
    AGREST: "asymmetric gradient estimation, which sends queries where most answers are not flagged",
  };
  const BEST = "best of all attacks";
  const KNEW = "for each image, if the attacker knew which to use";
  const PHASES = ["#76818f", "#2f7f95", "#a58a2b", "#9a6bb0", "#5b8c4a"];

  // State --------------------------------------------------------------------------------------

  const state = {
    model: data.models[0],
    price: data.prices.length ? data.prices[0].name : null,
    level: data.levels.includes(data.level) ? data.level : data.levels[0],
    by: "cost", curveX: "log", curveY: "log", bands: data.attacks.length <= 2,
    best: true, successX: "log", unit: "cost", hidden: new Set(), against: data.ranking.against,
    galleryAttack: data.gallery.rows.length ? data.gallery.rows[0].attack : null,
    galleryPrice: data.gallery.rows.length ? data.gallery.rows[0].price : null,
  };
  const {
    number, count, exact, percent, interval, sure, plain, make, explained, drawn, picture, section, box, follow, choose,
    choice, tick, toolbar, theme, axis, layout, chart, numbers, tips, bold, items, environment, finish,
  } = pageTools(state, TERMS);

  const modelChoice = () => choice("model", "Model", data.models.map((value) => ({ value, label: value })));
  const priceChoice = () =>
    choice("price", "Price", data.prices.map(({ name, label }) => ({ value: name, label })));
  const levelChoice = () =>
    choice("level", `${norm} at most`, data.levels.map((value) => ({ value, label: exact(value) })));
  const scaleChoice = (key, name) =>
    choice(key, name, ["linear", "log"].map((value) => ({ value, label: value })));

  const priceLabel = (name) => (data.prices.find((price) => price.name === name) || { label: name }).label;
  const here = (item) => item.model === state.model && item.price === state.price;
  const shown = (item) => !state.hidden.has(item.attack);
  const ordered = (items) => [...items].sort((a, b) => place(a.attack) - place(b.attack));
  const where = () => `${state.model}, ${priceLabel(state.price)}`;

  // Attacks: a colour, a dash and a symbol each ---------------------------------------------------

  const place = (attack) => data.attacks.findIndex(({ name }) => name === attack);
  const families = [...new Set(data.attacks.map(({ family }) => family))];
  const many = data.attacks.length > COLOURS;
  const taken = new Set();
  const free = (colour, style) => {  // families that share a colour differ in dashes, as far as these go
    const shifts = DASHES.map((_, k) => (style + k) % DASHES.length);
    const found = shifts.find((dash) => !taken.has(`${colour} ${dash}`)) ?? style % DASHES.length;
    taken.add(`${colour} ${found}`);
    return found;
  };
  const uses = Array(COLOURS).fill(0);  // a family takes the colour with the fewest attacks so far
  const shades = new Map(families.map((family) => {
    const shade = uses.indexOf(Math.min(...uses));
    uses[shade] += data.attacks.filter((attack) => attack.family === family).length;
    return [family, shade];
  }));
  const looks = new Map(data.attacks.map(({ name, family, style }, i) => {
    const colour = many ? shades.get(family) : i;
    const dash = many ? free(colour, style) : 0;
    return [name, { colour, dash, symbol: many ? dash % SYMBOLS.length : i }];
  }));
  const look = (attack) => looks.get(attack) || { colour: 0, dash: 0, symbol: 0 };
  const variable = (attack) => `--attack-${look(attack).colour}`;
  const colour = (attack) => theme(variable(attack));
  const dash = (attack) => DASHES[look(attack).dash];
  const symbol = (attack) => SYMBOLS[look(attack).symbol];

  /** How an attack is drawn: its line, or its marker. */
  function swatch(attack, marked) {
    const outline = OUTLINES[symbol(attack)];
    const shape = !marked
      ? drawn("line", { x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 3, "stroke-dasharray": STROKES[look(attack).dash] })
      : outline ? drawn("polygon", { points: outline }) : drawn("circle", { cx: 11, cy: 6, r: 4.5 });
    shape.style[marked ? "fill" : "stroke"] = `var(${variable(attack)})`;
    return drawn("svg", { width: 22, height: 12, "aria-hidden": "true" }, shape);
  }

  function hide(attacks, hidden) {
    for (const attack of attacks) state.hidden[hidden ? "add" : "delete"](attack);
    choose("hidden", state.hidden);
  }

  /** Buttons that show or hide an attack in every chart; by family if there are many. */
  function legend(items, marked = false) {
    const present = data.attacks.filter(({ name }) => items.some(({ attack }) => attack === name));
    const names = present.map(({ name }) => name);
    const keys = present.map(({ name, family, method }) => make("button", {
      type: "button", class: "key", title: `${family}: ${method}`, "data-attack": name,
      on: { click: () => hide([name], !state.hidden.has(name)) },
    }, swatch(name, marked), name));
    follow(["hidden"], () => keys.forEach((key, i) =>
      key.setAttribute("aria-pressed", String(!state.hidden.has(names[i])))));
    const all = (label, hidden) => make("button", {
      type: "button", class: "plain", on: { click: () => hide(names, hidden) },
    }, label);
    const both = names.length > 2 ? [all("show all", false), all("hide all", true)] : [];
    const groups = !many ? keys : families.map((family) => {
      const members = present.filter((attack) => attack.family === family).map(({ name }) => name);
      const some = () => members.some((name) => !state.hidden.has(name));
      const whole = make("button", {
        type: "button", class: "plain family", title: "show or hide the family", on: { click: () => hide(members, some()) },
      }, family);
      return members.length ? make("div", { class: "group" }, whole, ...keys.filter((_, i) => members.includes(names[i]))) : null;
    });
    return make("div", { class: many ? "legend grouped" : "legend", role: "group", "aria-label": "Attacks shown" },
      ...groups.filter(Boolean), ...both);
  }

  // Charts -------------------------------------------------------------------------------------

  function line(attack, x, y, hovertext, more) {
    return {
      type: "scatter", mode: "lines", name: plain(attack), x, y, hovertext, hoverinfo: "text",
      line: { color: colour(attack), dash: dash(attack), width: 2.2, shape: "hv" }, ...more,
    };
  }

  // Median against cost ------------------------------------------------------------------------

  /** The outline of an interval, as steps; open above where its upper end is infinite. */
  function outline(curve, top) {
    const x = [], y = [];
    let run = [];
    const close = () => {
      run.forEach(([at, , high], i) => {
        if (i) { x.push(at); y.push(run[i - 1][2]); }
        x.push(at); y.push(high);
      });
      for (let i = run.length - 1; i >= 0; i--) {
        x.push(run[i][0]); y.push(run[i][1]);
        if (i) { x.push(run[i][0]); y.push(run[i - 1][1]); }
      }
      if (run.length) { x.push(null); y.push(null); }
      run = [];
    };
    curve.x.forEach((at, i) => {
      if (curve.y[i] === null || curve.low[i] === null) close();
      else run.push([at, curve.low[i], curve.high[i] === null ? top : curve.high[i]]);
    });
    close();
    return { x: x.slice(0, -1), y: y.slice(0, -1) };
  }

  function band(curve, top) {
    return {
      type: "scatter", mode: "lines", ...outline(curve, top), fill: "toself", hoverinfo: "skip",
      line: { width: 0, color: colour(curve.attack) }, fillcolor: colour(curve.attack), opacity: 0.14,
    };
  }

  /** A curve from its first known value: earlier costs would stretch a log axis. */
  function known(curve) {
    const first = curve.y.findIndex((value) => value !== null);
    const from = (values) => (first < 0 ? [] : values.slice(first));
    return { ...curve, x: from(curve.x), y: from(curve.y), low: from(curve.low), high: from(curve.high) };
  }

  function curvesChart() {
    const flagged = state.by === "source";
    const chosen = data.curves.filter((c) => here(c) && shown(c) && c.by === state.by);
    const found = ordered(chosen).map(known).filter((c) => c.x.length);
    const top = 1.05 * Math.max(0, ...found.flatMap((c) => numbers(c.y, c.high)));
    const spent = flagged ? "flagged queries" : "total cost";
    const lines = found.map((c) => line(c.attack, c.x, c.y, tips(c.x.map((at, i) => [
      bold(c.attack), `${spent} ${count(at)}`, `median ${norm} ${number(c.y[i])}`, sure(c.low[i], c.high[i]),
    ]))));
    const bands = state.bands ? found.map((c) => band(c, top)) : [];
    const chosenBest = state.best ? data.best.filter((c) => here(c) && c.by === state.by) : [];
    const best = chosenBest.map(known).filter((c) => c.x.length).map((c) => line(BEST, c.x, c.y, tips(c.x.map((at, i) => [
      bold(BEST), `${spent} ${count(at)}`, `median ${norm} ${number(c.y[i])}`, sure(c.low[i], c.high[i]),
    ])), { line: { color: theme("--muted"), dash: "dot", width: 2, shape: "hv" } }));
    const title = flagged ? "flagged queries" : `total cost (${priceLabel(state.price)})`;
    return {
      traces: [...bands, ...lines, ...best],
      layout: layout(
        axis(title, state.curveX, found.flatMap((c) => c.x), { rangemode: "tozero" }),
        axis(`median ${norm} distance`, state.curveY, [top], { rangemode: "tozero" }),
        { height: many ? 540 : 420 },
      ),
      label: `Median ${norm} distance against ${spent}: ${where()}; ${found.length} attacks.`,
    };
  }

  function curves() {
    const by = [["cost", "total cost"], ["source", "flagged queries"]];
    const options = by.filter(([value]) => data.curves.some((curve) => curve.by === value));
    if (!options.length) return;
    state.by = options[0][0];
    section("curves", "Distance against cost",
      `Lower is better for the attacker: the median ${norm} distance reached at a given cost, or for a given number of `
        + "flagged queries. Tick the box to shade its 95\u202f% interval over images. A curve starts where half of the runs have an adversarial image."
        + (data.best.length ? ` The dotted one is the ${BEST}, ${KNEW}.` : ""),
      toolbar(modelChoice(), priceChoice(),
        choice("by", "Against", options.map(([value, label]) => ({ value, label }))),
        scaleChoice("curveX", "x axis"), scaleChoice("curveY", "y axis"), tick("bands", "95\u202f% intervals"),
        data.best.length ? tick("best", `${BEST} (dotted)`) : null),
      legend(data.curves),
      chart("curves-chart", ["model", "price", "by", "curveX", "curveY", "bands", "best", "hidden"], curvesChart));
  }

  // Flagged against total queries --------------------------------------------------------------

  const atLevel = (items) => items.filter((t) => t.model === state.model && t.level === state.level);
  const reached = (t) => t.flagged !== null && t.queries !== null;
  const across = (t) => Math.max(1, t.flagged); // no flagged query has no place on a log axis
  const priceRank = (name) => data.prices.findIndex((price) => price.name === name);
  const placed = () => ordered(atLevel(data.tradeoff).filter((t) => shown(t) && reached(t)));

  /** The ends of a log axis: all of the values, and a factor of four at least, so that small
      differences look small. */
  function span(values) {
    const low = Math.min(...values), high = Math.max(...values);
    const margin = Math.max(1.4, Math.sqrt((4 * low) / high));
    return [low / margin, high * margin];
  }

  function tradeoffChart() {
    const found = placed();
    const attacks = [...new Set(found.map(({ attack }) => attack))];
    const traces = attacks.map((attack) => {
      const points = found.filter((t) => t.attack === attack).sort((a, b) => priceRank(a.price) - priceRank(b.price));
      const hovertext = tips(points.map((t) => [
        `${bold(attack)}, ${plain(priceLabel(t.price))}`, `flagged ${count(t.flagged)}`,
        `queries ${count(t.queries)}`, `reached for ${percent(t.share)} of the images`,
      ]));
      const size = points.map((t) => 9 + (8 * priceRank(t.price)) / Math.max(1, data.prices.length - 1));
      return line(attack, points.map(across), points.map((t) => t.queries), hovertext, {
        mode: found.length <= 24 ? "lines+markers+text" : "lines+markers", cliponaxis: false,
        text: points.map((t) => plain(short(priceLabel(t.price).replace(/^c\*\s=\s|:.*/, ""), 12))),
        textposition: "top center", textfont: { size: 11.5, color: theme("--muted") },
        line: { color: colour(attack), width: 1, dash: dash(attack) },
        marker: { color: colour(attack), size, opacity: 0.9, symbol: symbol(attack), line: { width: 1, color: theme("--paper") } },
      });
    });
    if (!found.length) return { traces, layout: {}, label: "" };
    const x = span(found.map(across)), y = span(found.map((t) => t.queries));
    const ends = [Math.max(x[0], y[0] / 2), Math.min(x[1], y[1] / 2)];
    if (ends[0] < ends[1]) {
      traces.unshift({
        type: "scatter", mode: "lines", name: "half flagged", x: ends, y: ends.map((value) => 2 * value),
        hoverinfo: "skip", line: { color: theme("--muted"), width: 1.4, dash: "dot" },
      });
    }
    const logs = (range) => ({ range: range.map(Math.log10) });
    return {
      traces,
      layout: layout(
        axis("median flagged queries (log scale)", "log", found.map(across), logs(x)),
        axis("median of all queries (log scale)", "log", found.map((t) => t.queries), logs(y)),
      ),
      label: `Flagged queries against all queries to reach ${norm} ${exact(state.level)}: ${state.model}.`,
    };
  }

  /** Points that the axes cannot show, in words. */
  function missing() {
    const place = make("div", { class: "small" });
    const why = (t) => `${priceLabel(t.price)}: ${percent(t.share)}`;
    follow(["model", "level", "hidden"], () => {
      const found = placed();
      const left = ordered(atLevel(data.tradeoff).filter((t) => shown(t) && !reached(t)));
      const names = [...new Set(left.map(({ attack }) => attack))].map((attack) =>
        `${attack}, ${left.filter((t) => t.attack === attack).map(why).join("; ")}`);
      const below = found.length && found.every((t) => t.queries > 2 * across(t));
      place.replaceChildren(...[
        found.some((t) => t.flagged < 1) ? make("p", null, "Zero flagged queries are drawn at 1.") : null,
        below ? make("p", null, "At every point fewer than half of the queries are flagged.") : null,
        left.length ? make("p", null, "Not on the chart, because fewer than half of the images reached the "
          + "distance; the share of images that did:") : null,
        left.length ? items(names) : null,
      ].filter(Boolean));
    });
    return place;
  }

  function tradeoff() {
    if (!data.tradeoff.length) return;
    const half = make("span", { class: "key fixed" }, drawn("svg", { width: 22, height: 12, "aria-hidden": "true" },
      drawn("line", { x1: 0, x2: 22, y1: 6, y2: 6, class: "half" })), "half of the queries flagged");
    section("tradeoff", "Flagged and all queries",
      "Down and to the left is cheaper for the attacker: the median number of all queries and of flagged queries "
        + `until an image first reached the chosen ${norm} distance. Each point is labelled with its price`
        + (data.prices.length > 1 ? "; later prices in the list have larger points." : "."),
      toolbar(modelChoice(), levelChoice()), legend(data.tradeoff, true), make("div", { class: "legend" }, half),
      chart("tradeoff-chart", ["model", "level", "hidden"], tradeoffChart), missing());
  }

  // Success ------------------------------------------------------------------------------------

  function successChart() {
    const found = ordered(data.success.filter((s) => here(s) && shown(s) && s.level === state.level));
    const linear = state.successX === "linear"; // there a curve starts at cost 0
    const whole = found.map((s) => (linear ? { ...s, x: [0, ...s.x], y: [0, ...s.y] } : s));
    return {
      traces: whole.map((s) => line(s.attack, s.x, s.y, tips(s.x.map((at, i) => [
        bold(s.attack), `total cost ${count(at)}`, s.y[i] === null ? null : `${percent(s.y[i])} of the images`,
      ])), { cliponaxis: false })),
      layout: layout(
        axis(`total cost (${priceLabel(state.price)})`, state.successX, found.flatMap((s) => s.x), { rangemode: "tozero" }),
        axis(`share of images with ${norm} ≤ ${exact(state.level)}`, "linear", [], { range: [0, 1.02], tickformat: ".0%" }),
        { height: 360 },
      ),
      label: `Share of images within ${norm} ${exact(state.level)} against total cost: ${where()}.`,
    };
  }

  function success() {
    if (!data.success.length) return;
    section("success", "Success rate",
      `Higher is better for the attacker: the share of images that reached the chosen ${norm} distance at a given cost.`,
      toolbar(modelChoice(), priceChoice(), levelChoice(), scaleChoice("successX", "x axis")),
      legend(data.success),
      chart("success-chart", ["model", "price", "level", "successX", "hidden"], successChart));
  }

  // Cost by phase ------------------------------------------------------------------------------

  const phaseNames = [...new Set(data.phases.flatMap(({ phases }) => Object.keys(phases)))];
  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function phasesChart() {
    const found = ordered(data.phases.filter(here));
    const total = (p) => Object.values(p.phases).reduce((sum, cost) => sum + cost, 0) || 1;
    const value = (p, phase) => (p.phases[phase] || 0) / (state.unit === "share" ? total(p) : 1);
    const rows = found.map((_, i) => i);
    const most = innerWidth < 640 ? 14 : 28;
    return {
      traces: !found.length ? [] : phaseNames.map((phase, i) => ({
        type: "bar", orientation: "h", name: plain(phase), y: rows, x: found.map((p) => value(p, phase)),
        marker: { color: PHASES[i % PHASES.length] }, hoverinfo: "text", textposition: "none",
        hovertext: tips(found.map((p) => [
          `${bold(p.attack)}, ${plain(phase)}`, `mean cost ${number(p.phases[phase] || 0)}`,
          `${percent((p.phases[phase] || 0) / total(p))} of the run`,
        ])),
      })),
      layout: layout(
        axis(state.unit === "share" ? "share of the cost of a run" : `mean cost of a run (${priceLabel(state.price)})`,
          "linear", state.unit === "share" ? [] : found.map(total),
          state.unit === "share" ? { tickformat: ".0%", range: [0, 1] } : {}),
        axis("", "linear", [], {
          tickvals: rows, ticktext: found.map((p) => plain(short(p.attack, most))), showgrid: false,
          range: [found.length - 0.5, -0.5], tickfont: { color: theme("--ink"), size: 13 },
        }),
        { barmode: "stack", bargap: 0.35, height: 90 + 34 * found.length },
      ),
      label: `Mean cost by phase: ${where()}.`,
    };
  }

  function phases() {
    if (!phaseNames.length) return;
    const keys = phaseNames.map((phase, i) => make("span", { class: "key fixed" },
      drawn("svg", { width: 12, height: 12, "aria-hidden": "true" },
        drawn("rect", { width: 12, height: 12, fill: PHASES[i % PHASES.length] })), phase));
    section("phases", "Cost by phase",
      "Each bar is the mean cost of a run, by the purpose of its queries.",
      toolbar(modelChoice(), priceChoice(),
        choice("unit", "As", [{ value: "cost", label: "cost" }, { value: "share", label: "share" }])),
      make("div", { class: "legend" }, ...keys),
      chart("phases-chart", ["model", "price", "unit"], phasesChart));
  }

  // Planned and realised shares of low-cost answers --------------------------------------------

  function sharesChart() {
    const found = ordered(data.shares.filter((s) => here(s) && shown(s)));
    const texts = (s, name, values) => tips(s.t.map((t, i) => [
      bold(s.attack), `iteration ${t}`, `${name} ${percent(values[i] || 0)}`,
    ]));
    const colourOf = (s) => ({ color: colour(s.attack) });
    return {
      traces: found.flatMap((s) => [
        line(s.attack, s.t, s.planned, texts(s, "planned", s.planned), {
          line: { ...colourOf(s), width: 1.8, dash: "dot" },
        }),
        line(s.attack, s.t, s.realised, texts(s, "realised", s.realised), {
          mode: "lines+markers", line: { ...colourOf(s), width: 2.2 },
          marker: { ...colourOf(s), size: 6, symbol: symbol(s.attack) }, cliponaxis: false,
        }),
      ]),
      layout: layout(
        axis("iteration", "linear", [], { tickformat: "d", rangemode: "tozero" }),
        axis("share of low-cost answers", "linear", [], { tickformat: ".0%", range: [0, 1.02] }),
        { height: 360 },
      ),
      label: `Planned and realised share of low-cost answers by iteration: ${where()}.`,
    };
  }

  function shares() {
    if (!data.shares.length) return;
    section("shares", "Low-cost answers",
      "The share of low-cost (not flagged) answers in each iteration's estimate: planned (dotted) and realised (solid, with marks).",
      toolbar(modelChoice(), priceChoice()), legend(data.shares, true),
      chart("shares-chart", ["model", "price", "hidden"], sharesChart));
  }

  // Words, table, gallery -------------------------------------------------------------------------

  function summary() {
    if (!data.summary.length && !data.notes.length) return;
    const notes = data.notes.length
      ? make("div", { class: "notes" }, make("h3", null, "Notes"), items(data.notes)) : null;
    section("summary", "Summary", null, data.summary.length
      ? make("div", null, make("p", { class: "how" }, "The main results in words."), items(data.summary))
      : make("p", { class: "how" }, "Read this before the numbers below."), ...(notes ? [notes] : []));
  }

  function cell(entry, uniform) {
    if (!entry) return make("td", { "aria-label": "not run" }, "–");
    const value = make(entry.best ? "strong" : "span", null, number(entry.value));
    const known = entry.low !== null || entry.high !== null;
    const small = [
      known ? interval(entry.low, entry.high) : null,
      entry.success < 1 ? `found for ${percent(entry.success)}` : null,
      uniform ? null : `${count(entry.images)} images`,
    ].filter(Boolean).map((text) => make("small", null, text));
    return make("td", { title: `${count(entry.runs)} runs, ${count(entry.images)} images` }, value, ...small);
  }

  /** The heads of the columns: models, and below them prices and budgets. */
  function heads(columns) {
    const spans = [];
    for (const { model } of columns) {
      if (spans.length && spans[spans.length - 1].model === model) spans[spans.length - 1].span++;
      else spans.push({ model, span: 1 });
    }
    const models = make("tr", null, make("td"),
      ...spans.map(({ model, span }) => make("th", { class: "model", colspan: span, scope: "colgroup" }, model)));
    const prices = make("tr", null,
      make("th", { class: "text method", scope: "col" }, "Attack and method"),
      ...columns.map(({ label, budget, by }) => make("th", { scope: "col" }, label,
        make("small", null, by === "queries" ? `${exact(budget)} queries` : `budget ${exact(budget)}`))));
    return make("thead", null, models, prices);
  }

  function table() {
    const { columns, rows } = data.table;
    if (!rows.length || !columns.length) return;
    const all = [...rows.map(({ cells }) => cells), data.table.best];
    const images = new Set(all.flatMap((cells) => cells.filter(Boolean).map((entry) => entry.images)));
    const uniform = images.size === 1;
    const bodies = [...new Set(rows.map(({ family }) => family))].map((family) => {
      const members = rows.filter((row) => row.family === family);
      const name = make("tr", null, make("th", { class: "text family", scope: "rowgroup" }, family),
        make("td", { colspan: columns.length }));
      return make("tbody", null, name, ...members.map(({ method, attack, cells }) => make("tr", { "data-attack": attack },
        make("th", { class: "text method", scope: "row", title: attack }, method),
        ...cells.map((entry) => cell(entry, uniform)))));
    });
    if (data.table.best.some(Boolean)) {
      bodies.push(make("tbody", { class: "best" }, make("tr", null,
        make("th", { class: "text method", scope: "row" }, BEST, make("small", null, KNEW)),
        ...data.table.best.map((entry) => cell(entry, uniform)))));
    }
    const used = Object.entries(METHODS).filter(([word]) =>
      rows.some(({ method }) => method.split(/[+ ]/).includes(word)));
    const words = used.map(([word, meaning]) => `${word}: ${meaning}`).join("; ");
    section("table", "Distance at the budget",
      `Lower is better for the attacker: the median ${norm} distance${uniform ? ` over ${count([...images][0])} images` : ""}, `
        + "with its 95\u202f% interval below. Bold marks the smallest of a column and all that are not significantly different from it. "
        + "∞: fewer than half of the runs found an adversarial image. If some runs found none, the share that did "
        + "is shown below.",
      ...(words ? [make("p", { class: "how methods" }, `${words}.`)] : []),
      box("Table of distances", make("table", { class: "results" }, heads(columns), ...bodies)));
  }

  // Ranking over budgets -----------------------------------------------------------------------

  const estimate = (entry, note = null) => (!entry ? make("td", { "aria-label": "not known" }, "–")
    : make("td", { title: `${count(entry[3])} images` }, number(entry[0]), make("small", null, note || interval(entry[1], entry[2]))));
  const plainCell = (value) => make("td", null, value === null ? "–" : number(value));

  /** The attack with the smallest G in a sentence, with the range of costs. */
  function standing(rows, { by, first, last }) {
    const best = rows.find(({ item, ratio }) => ratio && item.attack !== state.against);
    const range = `${by === "cost" ? "costs" : "queries"} from ${exact(first)} to ${exact(last)}`;
    if (!best) return `There is no attack to compare with ${state.against} over ${range}.`;
    const [value, low, high, images] = best.ratio;
    return `Over ${range}, on ${count(images)} images, the distance of ${best.item.attack} is ${number(value)} (${sure(low, high)}) `
      + `times that of ${state.against}.`;
  }

  function rankingTable() {
    const at = place(state.against);
    const range = data.ranking.ranges.find(here);
    const rows = data.ranking.standings.filter(here).map((item) => ({ item, ratio: item.ratios[at] }));
    if (!range || !rows.length) return [make("p", { class: "empty" }, "Nothing to show for this choice.")];
    rows.sort((a, b) => (a.ratio ? a.ratio[0] : Infinity) - (b.ratio ? b.ratio[0] : Infinity) || 0);
    const timed = rows.some(({ item }) => item.seconds !== null);
    const heads = ["G", "O", ...(timed ? ["Seconds", "Queries/s"] : [])];
    const small = { G: `relative to ${state.against}`, O: "1 is best" };
    const head = make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Attack"),
      ...heads.map((name) => make("th", { scope: "col" }, name, small[name] ? make("small", null, small[name]) : null))));
    const body = make("tbody", null, ...rows.map(({ item, ratio }) => make("tr", { "data-attack": item.attack },
      make("th", { class: "text method", scope: "row" }, item.attack),
      estimate(ratio, item.attack === state.against ? "the reference" : null), estimate(item.optimality),
      ...(timed ? [plainCell(item.seconds), plainCell(item.speed)] : []))));
    return [make("p", { class: "standing" }, standing(rows, range)),
      box("Table of the ranking", make("table", { class: "results ranking" }, head, body))];
  }

  function ranking() {
    const { standings, cap, best } = data.ranking;
    if (!standings.length) return;
    const shown = make("div", null);
    follow(["model", "price", "against"], () => shown.replaceChildren(...rankingTable()));
    const timed = standings.some(({ seconds }) => seconds !== null);
    section("ranking", "Ranking over budgets",
      `G is the attack's ${norm} distance relative to the reference: the geometric mean over the same images and over `
        + "log-spaced costs. Below 1 the attack has the smaller distance; the table is sorted by G.",
      make("p", { class: "how" }, `O compares the attack with the ${best} on each image, on a log scale, averaged over the `
        + "same costs: 1 if it has that distance at every cost, 0 if it never finds an adversarial image."),
      ...[toolbar(modelChoice(), priceChoice(), choice("against", "Reference", data.attacks.map(({ name }) => ({ value: name, label: name }))))]
        .filter(Boolean), shown,
      make("p", { class: "small" }, `A run without an adversarial image counts as ${cap}. Below the numbers are 95\u202f% intervals over images.`
        + (timed ? " Seconds are summed over all workers, without the loading of models; the time of a batch is split among "
          + "attacks by their rows." : "")));
  }

  /** Alarms of a detector for each series, and for benign sessions below. */
  function alarms() {
    if (!data.alarms) return;
    const { sentences, rows, benign } = data.alarms;
    const several = data.models.length > 1;
    const rate = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());
    const median = (value) => make("td", null, value === undefined || value === null ? "–" : count(value));
    const row = (name, { model, runs, share, per_query, queries, flagged }) => make("tr", null,
      make("th", { class: "text method", scope: "row" }, name),
      ...(several ? [make("td", { class: "text" }, model)] : []),
      make("td", null, count(runs)), make("td", null, percent(share)), make("td", null, rate(per_query)),
      median(queries), median(flagged));
    const columns = ["Runs", "with an alarm", "alarms per query", "queries until the first alarm", "flagged until then"];
    const head = make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Attack and price"),
      ...(several ? [make("th", { class: "text", scope: "col" }, "Model")] : []),
      ...columns.map((name) => make("th", { scope: "col" }, name))));
    section("alarms", "Alarms",
      "Alarms of the detector on the queries of each attack. Queries until the first alarm are a median over the runs "
        + "with an alarm. The last rows are benign sessions with the same images: recompressed, cropped and brightened "
        + "copies, and a small random walk.",
      items(sentences),
      box("Table of alarms", make("table", { class: "results" }, head,
        make("tbody", null, ...rows.map((each) => row(`${each.attack}, ${priceLabel(each.price)}`, each))),
        make("tbody", null, ...benign.map((each) => row("benign sessions", each))))));
  }

  function shot({ cost, distance, label, image, difference }) {
    const at = `at cost ${count(cost)}`;
    const lines = [`${norm} ${number(distance)}`, label].filter(Boolean).map((text) => make("span", null, text));
    return make("figure", null,
      picture(image, `Adversarial image ${at}`),
      make("figcaption", null, make("b", null, `cost ${count(cost)}`), ...lines),
      picture(difference, `Difference ${at}, amplified ${data.gallery.factor} times`));
  }

  /** The images of the chosen attack and price, with their adversarial images. */
  function strips() {
    const { images, rows } = data.gallery;
    const place = make("div", null);
    const model = data.models.length > 1 && rows.length ? `, ${rows[0].model}` : ""; // all rows have the same model
    const title = () => `${state.galleryAttack}, ${priceLabel(state.galleryPrice)}${model}`;
    follow(["galleryAttack", "galleryPrice"], () => {
      const chosen = rows.filter((row) => row.attack === state.galleryAttack && row.price === state.galleryPrice);
      place.replaceChildren(...chosen.flatMap(({ image, shots }) => {
        const { name, label, original } = images[image];
        const first = make("figure", null, picture(original, `Original ${name}, ${label}`),
          make("figcaption", null, make("b", null, "original"), make("span", null, label)));
        return [make("h3", null, `${name} (${label}): ${title()}`), make("div", { class: "strip" }, first, ...shots.map(shot))];
      }), ...(chosen.length ? [] : [make("p", { class: "empty" }, `This page has no images for ${title()}.`)]));
    });
    return place;
  }

  function gallery() {
    const { note, rows, factor } = data.gallery;
    if (!rows.length && !note) return;
    const attacks = data.attacks.filter(({ name }) => rows.some((row) => row.attack === name));
    const prices = data.prices.filter(({ name }) => rows.some((row) => row.price === name));
    section("gallery", "Gallery",
      "From left to right: the original, then the adversarial image with the smallest distance at each cost, with the "
        + "model's class for it if that is known. Below is the difference from the original around grey, "
        + `amplified ${factor} times everywhere.`,
      ...[note ? make("p", { class: "small" }, note) : null, rows.length ? toolbar(
        choice("galleryAttack", "Attack", attacks.map(({ name }) => ({ value: name, label: name }))),
        choice("galleryPrice", "Price", prices.map(({ name, label }) => ({ value: name, label })))) : null,
      rows.length ? strips() : null].filter(Boolean));
  }

  for (const build of [summary, table, ranking, curves, tradeoff, success, phases, shares, alarms, gallery]) build();
  environment(data);
  finish(data.title, data.made, `Distances: ${data.reading}`);
})();

/* What the page of a report does.

   1. Text of the data goes into the document by `make` (text nodes), and into charts by `plain`;
      no markup is ever made of it. Pictures are data URIs, or they are not shown.
   2. Nothing is fetched.
   3. `state` holds what is chosen. Controls write it by `choose`; whoever shows a choice has
      registered with `follow`, so that the same choice stands everywhere on the page.
   4. null is infinite or unknown: "∞" in text, a gap in a curve, a line of text under a chart.
   5. A section without data is not made. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  for (const item of [...data.prices, ...data.table.columns]) item.label = item.label.replace(/ /g, "\u00a0");

  const COLOURS = 7; // --attack-0 to --attack-6; further attacks have the same colours, dashed
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const STROKES = ["", "6 3", "2 2", "6 2 2 2"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up"];
  const PHASES = ["#76818f", "#2f7f95", "#a58a2b", "#9a6bb0", "#5b8c4a"];
  const CONFIG = {
    displaylogo: false, // and no button that would send the chart anywhere: these are all there are
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
    responsive: true,
    toImageButtonOptions: { format: "svg", filename: "tollbox" },
  };

  // Text and numbers ---------------------------------------------------------------------------

  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

  /** Three significant digits; thousands are set apart. */
  function number(value) {
    if (value === null || value === undefined) return "∞";
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size < 1e-3 || size >= 1e7) return value.toExponential(2).replace("e+", "e");
    if (size >= 999.5) return grouped(String(Number(value.toPrecision(3))));
    return value.toPrecision(3);
  }

  /** A count: whole if it is whole. */
  const count = (value) => (Number.isInteger(value) ? grouped(String(value)) : number(value));
  /** All digits: for levels and budgets, which were chosen. */
  const exact = (value) => (value === null ? "∞" : Number.isInteger(value) ? count(value) : String(value));
  const percent = (share) => `${Number((100 * share).toPrecision(3))}\u202f%`;
  const interval = (low, high) => `[${number(low)}, ${number(high)}]`;

  /** Text as a chart shows it literally: charts know a few tags. */
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Elements -----------------------------------------------------------------------------------

  /** An element; children that are no nodes become text. */
  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }

  function drawn(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function picture(uri, alt) {
    if (!/^data:image\/(png|jpeg|webp|gif);base64,/.test(uri)) return make("p", null, `(${alt}: no picture)`);
    const image = make("img", { src: uri, alt });
    image.addEventListener("load", () => image.classList.toggle("coarse", image.naturalWidth < 120));
    return image;
  }

  const sections = [];

  /** A section with a heading and how it is to be read. */
  function section(id, title, how, ...children) {
    const heading = make("h2", { id: `${id}-title` }, title);
    const reading = how ? make("p", { class: "how" }, how) : null;
    main.append(make("section", { id, "aria-labelledby": heading.id }, heading, reading, ...children));
    sections.push([id, title]);
  }

  const box = (label, child) =>
    make("div", { class: "box", tabindex: "0", role: "region", "aria-label": label }, child);

  // What is chosen -----------------------------------------------------------------------------

  const state = {
    model: data.models[0],
    price: data.prices.length ? data.prices[0].name : null,
    level: data.levels.includes(data.level) ? data.level : data.levels[0],
    by: "cost", curveX: "log", curveY: "log", bands: data.attacks.length <= 2,
    successX: "log", unit: "cost", hidden: new Set(),
  };
  const followers = [];

  /** Do this whenever one of these choices changes, and once at the start. */
  const follow = (keys, act) => followers.push({ keys, act });

  function choose(key, value) {
    state[key] = value;
    for (const { keys, act } of followers) if (keys.includes(key)) act();
  }

  let controls = 0;

  /** A choice of one: a row of buttons if there are few and short, else a list; nothing for one. */
  function choice(key, name, options) {
    if (options.length < 2) return null;
    const id = `choice-${++controls}`;
    const letters = options.reduce((sum, option) => sum + option.label.length + 3, 0);
    return letters <= 44 ? buttons(id, key, name, options) : list(id, key, name, options);
  }

  function buttons(id, key, name, options) {
    const inputs = options.map(({ value }) => make("input", {
      type: "radio", name: id, on: { change: () => choose(key, value) },
    }));
    follow([key], () => inputs.forEach((input, i) => { input.checked = options[i].value === state[key]; }));
    const labels = inputs.map((input, i) => make("label", null, input, options[i].label));
    return make("div", { class: "choice", role: "radiogroup", "aria-labelledby": id, "data-key": key },
      make("span", { class: "name", id }, name), make("div", { class: "segments" }, ...labels));
  }

  function list(id, key, name, options) {
    const select = make("select", { id, on: { change: () => choose(key, options[select.selectedIndex].value) } },
      ...options.map(({ label }) => make("option", null, label)));
    follow([key], () => { select.selectedIndex = options.findIndex(({ value }) => value === state[key]); });
    return make("div", { class: "choice", "data-key": key },
      make("label", { class: "name", for: id }, name), select);
  }

  function tick(key, name) {
    const input = make("input", { type: "checkbox", on: { change: () => choose(key, input.checked) } });
    follow([key], () => { input.checked = state[key]; });
    return make("label", { class: "tick", "data-key": key }, input, name);
  }

  const toolbar = (...children) => {
    const shown = children.filter((child) => child !== null);
    return shown.length ? make("div", { class: "controls" }, ...shown) : null;
  };
  const modelChoice = () => choice("model", "Model", data.models.map((value) => ({ value, label: value })));
  const priceChoice = () =>
    choice("price", "Price", data.prices.map(({ name, label }) => ({ value: name, label })));
  const levelChoice = () =>
    choice("level", "ℓ2 at most", data.levels.map((value) => ({ value, label: exact(value) })));
  const scaleChoice = (key, name) =>
    choice(key, name, ["linear", "log"].map((value) => ({ value, label: value })));

  const priceLabel = (name) => (data.prices.find((price) => price.name === name) || { label: name }).label;
  const here = (item) => item.model === state.model && item.price === state.price;
  const shown = (item) => !state.hidden.has(item.attack);
  const ordered = (items) => [...items].sort((a, b) => place(a.attack) - place(b.attack));
  const where = () => `${state.model}, ${priceLabel(state.price)}`;

  // Attacks: a colour, a dash and a symbol each ---------------------------------------------------

  const place = (attack) => data.attacks.findIndex(({ name }) => name === attack);
  const round = (attack) => Math.floor(Math.max(place(attack), 0) / COLOURS) % DASHES.length;
  const variable = (attack) => `--attack-${Math.max(place(attack), 0) % COLOURS}`;
  const colour = (attack) => theme(variable(attack));
  const dash = (attack) => DASHES[round(attack)];
  const symbol = (attack) => SYMBOLS[round(attack)];
  const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function swatch(attack) {
    const line = drawn("line", {
      x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 3, "stroke-dasharray": STROKES[round(attack)],
    });
    line.style.stroke = `var(${variable(attack)})`;
    return drawn("svg", { width: 22, height: 12, "aria-hidden": "true" }, line);
  }

  function hide(attacks, hidden) {
    for (const attack of attacks) state.hidden[hidden ? "add" : "delete"](attack);
    choose("hidden", state.hidden);
  }

  /** Buttons that show or hide an attack in every chart. */
  function legend(items) {
    const present = data.attacks.filter(({ name }) => items.some(({ attack }) => attack === name));
    const names = present.map(({ name }) => name);
    const keys = present.map(({ name, family, method }) => make("button", {
      type: "button", class: "key", title: `${family}: ${method}`, "data-attack": name,
      on: { click: () => hide([name], !state.hidden.has(name)) },
    }, swatch(name), name));
    follow(["hidden"], () => keys.forEach((key, i) =>
      key.setAttribute("aria-pressed", String(!state.hidden.has(names[i])))));
    const all = (label, hidden) => make("button", {
      type: "button", class: "plain", on: { click: () => hide(names, hidden) },
    }, label);
    const both = names.length > 2 ? [all("show all", false), all("hide all", true)] : [];
    return make("div", { class: "legend", role: "group", "aria-label": "Attacks shown" }, ...keys, ...both);
  }

  // Charts -------------------------------------------------------------------------------------

  function axis(text, type, values, more) {
    const largest = Math.max(0, ...values);
    return {
      title: { text: plain(text), standoff: 10, font: { size: 13 } }, type, automargin: true,
      tickformat: largest >= 1e4 ? "~s" : ",.4~g",
      nticks: type === "log" ? 3 : 8, // three: 1, 2, 5, 10 over up to two decades, then decades
      gridcolor: theme("--line"), linecolor: theme("--edge"), zeroline: false,
      tickfont: { color: theme("--muted"), size: 12 }, ...more,
    };
  }

  function layout(x, y, more) {
    const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: theme("--ink") };
    const touch = matchMedia("(pointer: coarse)").matches; // there a drag scrolls the page
    return {
      xaxis: x, yaxis: y, font, showlegend: false, hovermode: "closest", hoverdistance: 40, separators: ".\u202f",
      paper_bgcolor: theme("--paper"), plot_bgcolor: theme("--paper"), dragmode: touch ? false : "zoom",
      margin: { l: 48, r: 14, t: 30, b: 44 }, height: 420,
      hoverlabel: {
        bgcolor: theme("--raised"), bordercolor: theme("--edge"), align: "left",
        font: { ...font, size: 12.5 },
      }, ...more,
    };
  }

  /** A chart that is drawn again whenever a choice it depends on changes. */
  function chart(id, keys, content) {
    const plot = make("div", { class: "chart", id, role: "group" });
    const empty = make("p", { class: "empty", hidden: true }, "Nothing to show for this choice.");
    follow([...keys, "theme"], () => {
      const { traces, layout: shape, label } = content();
      empty.hidden = traces.length > 0;
      plot.hidden = traces.length === 0;
      plot.setAttribute("aria-label", label);
      if (traces.length) Plotly.react(plot, traces, shape, CONFIG);
    });
    return make("figure", null, plot, empty);
  }

  const numbers = (...lists) => lists.flat().filter((value) => typeof value === "number");
  const tips = (lines) => lines.map((parts) => parts.filter(Boolean).join("<br>"));
  const bold = (text) => `<b>${plain(text)}</b>`;

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

  /** A curve from where it is known: what comes before would stretch a log axis. */
  function begun(curve) {
    const first = curve.y.findIndex((value) => value !== null);
    const from = (values) => (first < 0 ? [] : values.slice(first));
    return { ...curve, x: from(curve.x), y: from(curve.y), low: from(curve.low), high: from(curve.high) };
  }

  function curvesChart() {
    const flagged = state.by === "source";
    const chosen = data.curves.filter((c) => here(c) && shown(c) && c.by === state.by);
    const found = ordered(chosen).map(begun).filter((c) => c.x.length);
    const top = 1.05 * Math.max(0, ...found.flatMap((c) => numbers(c.y, c.high)));
    const spent = flagged ? "flagged queries" : "total cost";
    const lines = found.map((c) => line(c.attack, c.x, c.y, tips(c.x.map((at, i) => [
      bold(c.attack), `${spent} ${count(at)}`, `median ℓ2 ${number(c.y[i])} ${interval(c.low[i], c.high[i])}`,
    ]))));
    const bands = state.bands ? found.map((c) => band(c, top)) : [];
    const title = flagged ? "flagged queries" : `total cost (${priceLabel(state.price)})`;
    return {
      traces: [...bands, ...lines],
      layout: layout(
        axis(title, state.curveX, found.flatMap((c) => c.x), { rangemode: "tozero" }),
        axis("median ℓ2 distance", state.curveY, [top], { rangemode: "tozero" }),
      ),
      label: `Median ℓ2 distance against ${spent}: ${where()}; ${found.length} attacks.`,
    };
  }

  function curves() {
    const by = [["cost", "total cost"], ["source", "flagged queries"]];
    const options = by.filter(([value]) => data.curves.some((curve) => curve.by === value));
    if (!options.length) return;
    state.by = options[0][0];
    section("curves", "Distance against cost",
      "Lower is better for the attacker: the median distance reached at a given cost. Tick Intervals to shade "
        + "its 95\u202f% interval. A curve begins where half of the runs have an adversarial image.",
      toolbar(modelChoice(), priceChoice(),
        choice("by", "Against", options.map(([value, label]) => ({ value, label }))),
        scaleChoice("curveX", "x axis"), scaleChoice("curveY", "y axis"), tick("bands", "Intervals")),
      legend(data.curves),
      chart("curves-chart", ["model", "price", "by", "curveX", "curveY", "bands", "hidden"], curvesChart));
  }

  // Flagged against total queries --------------------------------------------------------------

  const atLevel = (items) => items.filter((t) => t.model === state.model && t.level === state.level);
  const onAxes = (t) => t.flagged > 0 && t.queries > 0;
  const priceRank = (name) => data.prices.findIndex((price) => price.name === name);

  function tradeoffChart() {
    const found = ordered(atLevel(data.tradeoff).filter((t) => shown(t) && onAxes(t)));
    const attacks = [...new Set(found.map(({ attack }) => attack))];
    const traces = attacks.map((attack) => {
      const points = found.filter((t) => t.attack === attack).sort((a, b) => priceRank(a.price) - priceRank(b.price));
      const hovertext = tips(points.map((t) => [
        `${bold(attack)}, ${plain(priceLabel(t.price))}`, `flagged ${count(t.flagged)}`,
        `queries ${count(t.queries)}`, `reached by ${percent(t.share)}`,
      ]));
      const size = points.map((t) => 8 + (10 * priceRank(t.price)) / Math.max(1, data.prices.length - 1));
      return line(attack, points.map((t) => t.flagged), points.map((t) => t.queries), hovertext, {
        mode: found.length <= 24 ? "lines+markers+text" : "lines+markers", cliponaxis: false,
        text: points.map((t) => plain(priceLabel(t.price).replace(/^c\*\s=\s/, ""))),
        textposition: "top center", textfont: { size: 11.5, color: theme("--muted") },
        line: { color: colour(attack), width: 1, dash: dash(attack) },
        marker: { color: colour(attack), size, opacity: 0.9, symbol: symbol(attack), line: { width: 1, color: theme("--paper") } },
      });
    });
    return {
      traces,
      layout: layout(
        axis("median flagged queries", "log", found.map((t) => t.flagged)),
        axis("median total queries", "log", found.map((t) => t.queries)),
      ),
      label: `Flagged queries against all queries to reach ℓ2 ${exact(state.level)}: ${state.model}.`,
    };
  }

  /** What has no place on the axes, in words. */
  function missing() {
    const place = make("div", { class: "small" });
    const why = (t) => `${priceLabel(t.price)}: ` + (t.flagged === null || t.queries === null
      ? `reached by ${percent(t.share)}`
      : `${count(t.flagged)} flagged of ${count(t.queries)} queries`);
    follow(["model", "level", "hidden"], () => {
      const left = ordered(atLevel(data.tradeoff).filter((t) => shown(t) && !onAxes(t)));
      const told = [...new Set(left.map(({ attack }) => attack))].map((attack) =>
        `${attack}, ${left.filter((t) => t.attack === attack).map(why).join("; ")}`);
      place.replaceChildren(...(left.length
        ? [make("p", null, "Not on the chart, with the share of images for which the distance was reached:"), items(told)]
        : []));
    });
    return place;
  }

  function tradeoff() {
    if (!data.tradeoff.length) return;
    section("tradeoff", "Flagged and total queries",
      "Down and to the left is cheaper: the median number of queries, and of flagged ones among them, until "
        + "the distance was first reached. The number at a point is its c*; the larger the point, the higher the price.",
      toolbar(modelChoice(), levelChoice()), legend(data.tradeoff),
      chart("tradeoff-chart", ["model", "level", "hidden"], tradeoffChart), missing());
  }

  // Success ------------------------------------------------------------------------------------

  function successChart() {
    const found = ordered(data.success.filter((s) => here(s) && shown(s) && s.level === state.level));
    return {
      traces: found.map((s) => line(s.attack, s.x, s.y, tips(s.x.map((at, i) => [
        bold(s.attack), `total cost ${count(at)}`, s.y[i] === null ? null : `${percent(s.y[i])} of the images`,
      ])), { cliponaxis: false })),
      layout: layout(
        axis(`total cost (${priceLabel(state.price)})`, state.successX, found.flatMap((s) => s.x), { rangemode: "tozero" }),
        axis(`share of images with ℓ2 ≤ ${exact(state.level)}`, "linear", [], { range: [0, 1.02], tickformat: ".0%" }),
        { height: 360 },
      ),
      label: `Share of images within ℓ2 ${exact(state.level)} against total cost: ${where()}.`,
    };
  }

  function success() {
    if (!data.success.length) return;
    section("success", "Success rate",
      "Higher is better for the attacker: the share of images for which the chosen distance had been reached at a given cost.",
      toolbar(modelChoice(), priceChoice(), levelChoice(), scaleChoice("successX", "x axis")),
      legend(data.success),
      chart("success-chart", ["model", "price", "level", "successX", "hidden"], successChart));
  }

  // Where the cost went ------------------------------------------------------------------------

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
    section("phases", "Where the cost went",
      "Each bar is the mean cost of a run, by what the queries were for.",
      toolbar(modelChoice(), priceChoice(),
        choice("unit", "As", [{ value: "cost", label: "cost" }, { value: "share", label: "share" }])),
      make("div", { class: "legend" }, ...keys),
      chart("phases-chart", ["model", "price", "unit"], phasesChart));
  }

  // Planned and realised shares of low-cost answers --------------------------------------------

  function sharesChart() {
    const found = ordered(data.shares.filter((s) => here(s) && shown(s)));
    const told = (s, name, values) => tips(s.t.map((t, i) => [
      bold(s.attack), `iteration ${t}`, `${name} ${percent(values[i] || 0)}`,
    ]));
    const colourOf = (s) => ({ color: colour(s.attack) });
    return {
      traces: found.flatMap((s) => [
        line(s.attack, s.t, s.planned, told(s, "planned", s.planned), {
          line: { ...colourOf(s), width: 1.8, dash: "dot" },
        }),
        line(s.attack, s.t, s.realised, told(s, "realised", s.realised), {
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
      "The share of low-cost answers in each iteration's estimate: planned (dotted) and realised (solid, with marks).",
      toolbar(modelChoice(), priceChoice()), legend(data.shares),
      chart("shares-chart", ["model", "price", "hidden"], sharesChart));
  }

  // Words, table, gallery, environment -----------------------------------------------------------

  const items = (lines) => make("ul", null, ...lines.map((text) => make("li", null, text)));

  function summary() {
    if (!data.summary.length && !data.notes.length) return;
    const notes = data.notes.length
      ? make("div", { class: "notes" }, make("h3", null, "Notes"), items(data.notes)) : null;
    section("summary", "Summary", null, data.summary.length
      ? make("div", null, make("p", { class: "how" }, "What the numbers below say, in words."), items(data.summary))
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

  /** The columns' heads: models above, where there are several; prices and budgets beneath. */
  function heads(columns) {
    const spans = [];
    for (const { model } of columns) {
      if (spans.length && spans[spans.length - 1].model === model) spans[spans.length - 1].span++;
      else spans.push({ model, span: 1 });
    }
    const models = make("tr", null, make("td", { colspan: "2" }),
      ...spans.map(({ model, span }) => make("th", { class: "model", colspan: span, scope: "colgroup" }, model)));
    const prices = make("tr", null,
      make("th", { class: "text family", scope: "col" }, "Family"), make("th", { class: "text", scope: "col" }, "Method"),
      ...columns.map(({ label, budget }) => make("th", { scope: "col" }, label,
        make("small", null, budget === null ? "no budget" : `budget ${exact(budget)}`))));
    return make("thead", null, models, prices);
  }

  function table() {
    const { columns, rows } = data.table;
    if (!rows.length || !columns.length) return;
    const images = new Set(rows.flatMap(({ cells }) => cells.filter(Boolean).map((entry) => entry.images)));
    const uniform = images.size === 1;
    const families = [...new Set(rows.map(({ family }) => family))];
    const bodies = families.map((family) => {
      const members = rows.filter((row) => row.family === family);
      return make("tbody", null, ...members.map(({ method, attack, cells }, i) => make("tr", { "data-attack": attack },
        i ? null : make("th", { class: "text family", scope: "rowgroup", rowspan: members.length }, family),
        make("th", { class: "text method", scope: "row", title: attack }, method),
        ...cells.map((entry) => cell(entry, uniform)))));
    });
    section("table", "Distance at the budget",
      `Lower is better for the attacker: the median ℓ2 distance${uniform ? ` over ${count([...images][0])} images` : ""}, `
        + "its interval beneath; bold is the best of its family in a column. ∞: fewer than half of the runs found "
        + "an adversarial image; where some found none, the share that did stands beneath.",
      box("Table of distances", make("table", { class: "results" }, heads(columns), ...bodies)));
  }

  function shot({ cost, distance, image, difference, factor }) {
    const at = `at cost ${count(cost)}`;
    return make("figure", null,
      picture(image, `Adversarial image ${at}`),
      make("figcaption", null, make("b", null, `cost ${count(cost)}`), `ℓ2 ${number(distance)}`),
      picture(difference, `Difference ${at}, amplified ${factor} times`),
      make("figcaption", null, `difference × ${factor}`));
  }

  function gallery() {
    const { note, rows } = data.gallery;
    if (!rows.length && !note) return;
    const strips = rows.flatMap(({ name, label, attack, price, original, shots }) => {
      const title = `${name} (${label}): ${attack}, ${priceLabel(price)}`;
      const first = make("figure", null, picture(original, `Original ${name}, ${label}`),
        make("figcaption", null, make("b", null, "original"), label));
      return [make("h3", null, title),
        box(title, make("div", { class: "strip" }, first, ...shots.map(shot)))];
    });
    section("gallery", "Gallery",
      "From left to right: the original, then the nearest adversarial image found by the time a cost was spent; "
        + "beneath, its difference from the original, amplified about grey.",
      ...(note ? [make("p", { class: "small" }, note)] : []), ...strips);
  }

  function copy(block, button) {
    const range = document.createRange();
    range.selectNodeContents(block);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const done = document.execCommand("copy");
    button.textContent = done ? "Copied" : "Selected: copy with Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  function environment() {
    const facts = Object.entries(data.environment);
    if (!facts.length && !data.commands.length) return;
    const parts = [];
    if (facts.length) {
      parts.push(make("table", { class: "facts" }, make("tbody", null,
        ...facts.map(([name, value]) => make("tr", null, make("th", { scope: "row" }, name), make("td", null, String(value)))))));
    }
    if (data.commands.length) {
      const block = make("pre", { tabindex: "0", "aria-label": "Commands" }, data.commands.join("\n"));
      const button = make("button", { type: "button", on: { click: () => copy(block, button) } }, "Copy");
      parts.push(make("h3", null, "Commands"), make("div", { class: "commands" }, block, button));
    }
    section("environment", "Environment",
      "The software the numbers were made with, and the commands that repeat them.", ...parts);
  }

  // The page -----------------------------------------------------------------------------------

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    choose("theme", name);
  }

  function themeButton() {
    const current = () => document.documentElement.dataset.theme;
    let chosen = false;
    const button = make("button", { type: "button", class: "theme", on: { click: () => {
      chosen = true;
      setTheme(current() === "dark" ? "light" : "dark");
    } } });
    follow(["theme"], () => { button.textContent = current() === "dark" ? "Light" : "Dark"; });
    follow(["theme"], () => { button.setAttribute("aria-label", `Use the ${button.textContent.toLowerCase()} theme`); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
      if (!chosen) setTheme(event.matches ? "dark" : "light");
    });
    return button;
  }

  function head() {
    const links = sections.map(([id, title]) => make("li", null, make("a", { href: `#${id}` }, title)));
    document.getElementById("top").append(
      make("div", { class: "head" }, make("h1", null, data.title), themeButton()),
      make("p", { class: "made" }, data.made),
      make("p", { class: "made" }, `Reading: ${data.reading}`),
      make("nav", { "aria-label": "Sections" }, make("ul", null, ...links)));
  }

  for (const build of [summary, table, curves, tradeoff, success, phases, shares, gallery, environment]) build();
  head();
  for (const { act } of followers) act();
})();

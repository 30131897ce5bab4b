/* What the page of an audit does; `shared.js` has what all pages share.

   1. null is infinite: not reached by any run, or of a price, that no price is too high. In text it
      is a word, in a curve a gap.
   2. What a reader asks (a worth, a price, an ε) is computed here from the accounts, each (flagged,
      others) of one image, by the rules of `answers.py`.
   3. A section without data is not made. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const TERMS = {
    "c*": "What a flagged answer costs; any other answer costs 1",
    flagged: "An answer is flagged if it is the image's own class, or one of the audit's flagged classes",
    RMS: "Root mean square of the change over all values of an image, in steps of 8-bit pixels; it is 255 times the "
      + "ℓ2 distance over the square root of the number of values",
    "break-even": "The largest price of a flagged answer at which the cheapest attack on an image costs no more than it is worth",
  };
  const PHASES = ["#76818f", "#2f7f95", "#a58a2b", "#9a6bb0", "#5b8c4a", "#b0655b"];
  const COLOURS = ["--attack-0", "--attack-2", "--attack-5", "--attack-1", "--attack-3", "--attack-4"];
  const measured = data.images.measured;
  const worth = data.questions.worth;
  const state = {
    level: data.headline, worth: worth === null ? 10000 : worth, price: data.reference, hidden: new Set(), unit: "cost",
    phasePrice: data.runs.length ? String(data.runs[0].price) : null,
  };
  const {
    number, count, percent, plain, make, explained, drawn, picture, section, box, follow, choose, choice, toolbar,
    theme, axis, layout, chart, numbers, tips, bold, items, environment, finish,
  } = pageTools(state, TERMS);

  // Words ---------------------------------------------------------------------------------------

  const costly = (value) => (value === null ? "∞" : value < 10 && !Number.isInteger(value) ? number(value) : count(Math.round(value)));
  const range = ({ low, high }) => `[${costly(low)}, ${costly(high)}]`;
  const priceName = (price) => (price === "inf" ? "flagged answers alone" : `c*\u00a0=\u00a0${count(price)}`);
  const levelName = (level) => `${Number(level.steps.toPrecision(3))}/255`;
  const levelWords = (level) => `${levelName(level)} RMS (ℓ2 ${number(level.epsilon)})`;
  const level = () => data.levels[state.level];
  const levelChoice = () => choice("level", "Changed by at most",
    data.levels.map((each, value) => ({ value, label: levelName(each) })));

  // What is asked: the rules of `answers.py` -------------------------------------------------------

  const accounts = () => data.accounts[state.level] || [];
  const least = (front, of) => front.reduce((best, [flagged, others]) => Math.min(best, of(flagged, others)), Infinity);
  const costs = (price) => accounts().map((front) => least(front, (f, o) => o + price * f));
  const fewest = () => accounts().map((front) => least(front, (f) => f));
  const evens = (value) => accounts().map((front) => front.reduce((most, [f, o]) =>
    (o > value ? most : Math.max(most, f === 0 ? Infinity : (value - o) / f)), 0));
  const sorted = (values) => [...values].sort((a, b) => a - b);
  const quantile = (values, q) => sorted(values)[Math.max(0, Math.ceil(Number((q * values.length).toFixed(9))) - 1)];
  const finite = (value) => (Number.isFinite(value) ? value : null);

  // Cost against ε ---------------------------------------------------------------------------------

  const lines = data.curves.lines.filter((line) => line.price !== "inf");
  const lineName = (line) => (line.policy ? `prices of ${line.policy}` : priceName(line.price));
  const lineColour = (i) => theme(COLOURS[i % COLOURS.length]);

  /** A colour, nearly transparent. */
  const faint = (colour, opacity) => {
    const parts = /^#(..)(..)(..)$/.exec(colour);
    return parts ? `rgba(${parts.slice(1).map((part) => parseInt(part, 16)).join(",")},${opacity})` : colour;
  };

  /** A band from the lowest of three curves to the highest that is known. */
  function band(x, { low, middle, high }, colour) {
    const piece = (top, from) => x.map((_, i) => i).filter((i) => from(i) && top[i] !== null).map((i) => [i, top[i]]);
    const partly = (i) => high[i] === null || (i > 0 && high[i - 1] === null); // up to where the whole band begins
    const xs = [], ys = [];
    for (const run of [piece(middle, partly), piece(high, () => true)].filter((each) => each.length)) {
      xs.push(...run.map(([i]) => x[i]), ...[...run].reverse().map(([i]) => x[i]), null);
      ys.push(...run.map(([i]) => low[i]), ...[...run].reverse().map(([, top]) => top), null);
    }
    return {
      type: "scatter", mode: "lines", x: xs.slice(0, -1), y: ys.slice(0, -1), fill: "toself", hoverinfo: "skip",
      line: { width: 0, color: colour }, fillcolor: faint(colour, 0.12),
    };
  }

  function costTrace(x, line, i, more) {
    return {
      type: "scatter", mode: "lines", name: plain(lineName(line)), x, y: line.middle, hoverinfo: "text",
      line: { color: lineColour(i), width: 2.6, shape: "linear" }, connectgaps: false,
      hovertext: tips(x.map((at, n) => [
        bold(lineName(line)), `changed by at most ${number(at)}/255 (ℓ2 ${number(data.curves.epsilon[n])})`,
        `half of the images: ${costly(line.middle[n])}`, `one in ten: ${costly(line.low[n])}`,
        `nine in ten: ${costly(line.high[n])}`,
      ])), ...more,
    };
  }

  const POWERS = Array.from({ length: 15 }, (_, i) => 2 ** (i - 6));
  const epsilonAxis = (x) => axis("change of a pixel: RMS, in 255ths", "log", x, { tickvals: POWERS, ticktext: POWERS.map((p) => (p < 1 ? `1/${1 / p}` : String(p))) });
  const costAxis = (more) => axis("cost of an image", "log", [1e5], { dtick: 1, ...more });

  function costChart() {
    const x = data.curves.steps;
    const found = lines.map((line, i) => [line, i]).filter(([line]) => !state.hidden.has(lineName(line)));
    const values = found.flatMap(([line]) => numbers(line.middle, line.high));
    const top = 1.3 * Math.max(1, ...values);
    const known = x.filter((_, i) => found.some(([line]) => line.middle[i] !== null));
    const mark = level().steps;
    const bands = found.map(([line, i]) => band(x, line, lineColour(i)));
    const ends = [0.6 * Math.min(...found.flatMap(([line]) => numbers(line.low)), top), top].map(Math.log10);
    const across = [Math.min(mark, ...known) / 1.1, Math.max(...x)].map(Math.log10);
    return {
      traces: values.length ? [...bands, ...found.map(([line, i]) => costTrace(x, line, i))] : [],
      layout: layout({ ...epsilonAxis(x), range: across }, costAxis({ range: ends }), {
        height: 440, margin: { l: 56, r: 14, t: 26, b: 48 },
        shapes: [{ type: "line", x0: mark, x1: mark, yref: "paper", y0: 0, y1: 1, line: { color: theme("--muted"), width: 1.2, dash: "dot" } }],
        annotations: [{
          x: Math.log10(mark), yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: `${levelName(level())}`,
          font: { size: 12, color: theme("--muted") },
        }],
      }),
      label: `Cost of an image against how far it is changed, for each price; ${found.length} lines.`,
    };
  }

  function swatch(i) {
    const line = drawn("line", { x1: 0, x2: 22, y1: 6, y2: 6, "stroke-width": 3 });
    line.style.stroke = `var(${COLOURS[i % COLOURS.length]})`;
    return drawn("svg", { width: 22, height: 12, "aria-hidden": "true" }, line);
  }

  function legend(names) {
    const keys = names.map((name, i) => make("button", {
      type: "button", class: "key", on: { click: () => {
        state.hidden[state.hidden.has(name) ? "delete" : "add"](name);
        choose("hidden", state.hidden);
      } },
    }, swatch(i), name));
    follow(["hidden"], () => keys.forEach((key, i) => key.setAttribute("aria-pressed", String(!state.hidden.has(names[i])))));
    return make("div", { class: "legend", role: "group", "aria-label": "Prices shown" }, ...keys);
  }

  function verdict() {
    const figure = lines.length && data.curves.steps.length ? [
      legend(lines.map(lineName)),
      chart("cost-chart", ["hidden", "level"], costChart),
      make("p", { class: "how" }, ...explained("A line is what half of the images cost at most, shaded from one in ten to nine "
        + "in ten of them: further to the left the change is smaller, and costs more to find. c* is the price of a flagged answer. "
        + "RMS is how far a pixel is changed. An image costs what the cheapest of all recorded attacks on it costs at "
        + "that price, as if the attacker knew which. Where a line ends, fewer than half of them were reached, and where the shade ends "
        + "at the line, fewer than nine in ten.")),
    ] : [];
    section("verdict", "In short", null, ...data.verdict.map((text) => make("p", { class: "verdict" }, ...explained(text))), ...figure);
  }

  // What would make it uneconomic --------------------------------------------------------------------

  function field(key, name, least) {
    const input = make("input", { type: "text", inputmode: "decimal", id: `ask-${key}`, on: { change: () => {
      const value = Number(input.value.replace(/[\s\u202f,_]/g, ""));
      if (Number.isFinite(value) && value >= least) choose(key, value);
      input.value = count(state[key]);
    } } });
    follow([key], () => { input.value = count(state[key]); });
    return make("label", { for: `ask-${key}` }, name, input);
  }

  function tile(value, words) {
    return make("div", { class: "tile" }, make("b", null, value), make("span", null, ...explained(words)));
  }

  function tiles() {
    const place = make("div", { class: "tiles", id: "asked-tiles", "aria-live": "polite" });
    follow(["worth", "price", "level"], () => {
      const even = quantile(evens(state.worth), 0.9), now = costs(state.price), flagged = fewest();
      const pays = now.filter((cost) => cost <= state.worth).length / now.length;
      const median = quantile(now, 0.5), few = quantile(flagged, 0.1);
      place.replaceChildren(
        tile(Number.isFinite(even) ? (even === 0 ? "any price" : count(even < 10 ? Number(even.toPrecision(3)) : Math.ceil(even))) : "no price",
          even === 0 ? "will do: these attacks pay on fewer than one in ten images"
            : Number.isFinite(even) ? "a flagged answer has to cost more than this before these attacks no longer pay on nine in ten images"
              : "is high enough: some attacks took no flagged answer"),
        tile(percent(pays), `of the images are worth attacking if a flagged answer costs ${count(state.price)}`),
        tile(costly(finite(median)), `is what half of the images cost at most if a flagged answer costs ${count(state.price)}`),
        tile(costly(finite(few)), `flagged answer${few === 1 ? " is" : "s are"} enough for one in ten images, that to the image itself included`));
    });
    return place;
  }

  const decades = (low, high, each) => {
    const marks = [];
    for (let exponent = Math.log10(low) * each; exponent <= Math.log10(high) * each + 1e-9; exponent++) marks.push(10 ** (exponent / each));
    return marks;
  };

  function shareChart(id, keys, marks, shares, text, label, at) {
    return chart(id, [...keys, "level"], () => {
      const x = marks(), y = shares(x), mark = at && at();
      return {
        traces: [{
          type: "scatter", mode: "lines", x, y, hoverinfo: "text", cliponaxis: false, fill: "tozeroy",
          fillcolor: faint(theme("--accent"), 0.14),
          line: { color: theme("--accent"), width: 2.4, shape: "hv" },
          hovertext: tips(x.map((value, i) => [`${text} ${count(Number(value.toPrecision(3)))}`, `${percent(y[i])} of the images`])),
        }],
        layout: layout(axis(text, "log", x, { dtick: 1 }), axis("share of the images", "linear", [], { range: [0, 1.03], tickformat: ".0%" }), {
          height: 300, margin: { l: 48, r: 14, t: 16, b: 44 },
          shapes: mark ? [{ type: "line", x0: mark, x1: mark, yref: "paper", y0: 0, y1: 1, line: { color: theme("--muted"), width: 1.2, dash: "dot" } }] : [],
        }),
        label,
      };
    });
  }

  function uneconomic() {
    if (!measured) return;
    const parts = [];
    if (accounts().length) {
      const pays = shareChart("pays-chart", ["worth", "price"], () => decades(1, 1e6, 12), (x) => {
        const prices = evens(state.worth);
        return x.map((price) => prices.filter((even) => even >= price && even > 0).length / prices.length);
      }, "price of a flagged answer", "Share of the images that are worth attacking, against the price of a flagged answer.", () => state.price);
      const most = () => Math.max(10, ...fewest().filter(Number.isFinite));
      const limits = shareChart("limit-chart", [], () => {
        const marks = new Set(decades(1, most() * 1.2, 16).map(Math.round));
        return [...marks];
      }, (x) => {
        const flagged = fewest();
        return x.map((limit) => flagged.filter((each) => each <= limit).length / flagged.length);
      }, "flagged answers that are let pass", "Share of the images that fall within a limit on flagged answers.");
      parts.push(
        make("div", { class: "asked" }, field("worth", "A changed image is worth", 0), field("price", "A flagged answer costs", 0), levelChoice()),
        tiles(),
        make("div", { class: "pair" },
          make("div", null, make("h3", null, "By price: images worth attacking"), pays),
          make("div", null, make("h3", null, "By limit: images that fall"), limits)));
    }
    section("uneconomic", "What would make it uneconomic",
      "The unit is what an answer that is not flagged costs. Prices are those that are needed at least: an attacker with better "
        + "attacks pays less. Change the numbers to ask for others; nothing is run for that.",
      ...parts, make("h3", null, "As it was measured"), items(data.advice));
  }

  // What was not measured ----------------------------------------------------------------------------

  const LIMITS = [
    "Costs are upper bounds: other attacks, a surrogate, or knowledge of the model may do with less. What was not reached within the budgets is not known to be safe.",
    "Limits are measured image by image: what happens when an account is closed and another one is opened is not.",
    "Changes are measured by their ℓ2 length alone. Whether one is seen, or matters, is not measured.",
  ];

  function boundaries() {
    section("limits", "What was not measured", null, make("div", { class: "notes" }, items([...data.notes, ...LIMITS])));
  }

  // The weakest images -------------------------------------------------------------------------------

  function weakest() {
    const { note, factor, images } = data.pictures;
    if (!data.weakest.length) return;
    const shown = data.weakest.map((each) => {
      const seen = images.find(({ place }) => place === each.image);
      const words = make("figcaption", null, make("b", null, `${each.name} (${each.label})`),
        `${costly(each.cost)} at ${priceName(data.reference)}: ${count(each.flagged)} flagged, ${count(each.others)} others, by ${each.attack} `
          + `planned for ${priceName(each.planned)}; nearest ℓ2 ${number(each.distance)}`);
      return make("figure", null, seen ? make("div", { class: "three" },
        picture(seen.original, `Original ${each.name}`), picture(seen.changed, `Changed ${each.name}`),
        picture(seen.difference, `Difference, amplified ${factor} times`)) : null, words);
    });
    section("weakest", "The weakest images",
      `Those that cost least at c* = ${data.reference} to bring within ${levelWords(data.levels[data.headline])}. From left to right: the original, the nearest changed image that the `
        + `cheapest run found, and the difference about grey, amplified ${factor} times throughout.`,
      ...(note ? [make("p", { class: "small" }, note)] : []), make("div", { class: "weak" }, ...shown));
  }

  // Tables ---------------------------------------------------------------------------------------------

  const small = (text) => make("small", null, text);

  function quantileCell({ quantiles, never }) {
    const [few, half, most] = quantiles;
    return make("td", null, make("span", null, costly(half.value)), small(range(half)),
      small(`${costly(few.value)} to ${costly(most.value)}`), ...(never ? [small(`${percent(never)} never`)] : []));
  }

  function costTable() {
    if (!measured) return;
    const heads = [...data.prices.map(priceName), ...(data.policy ? [`prices of ${data.questions.policy.name}`] : [])];
    const rows = data.levels.map((each, n) => make("tr", null,
      make("th", { class: "text method", scope: "row" }, `${levelName(each)}`, small(`ℓ2 ${number(each.epsilon)}; reached ${percent(each.reached)}`)),
      ...data.costs.filter((row) => row.level === n).map(quantileCell),
      ...(data.policy ? [quantileCell(data.policy[n])] : [])));
    section("costs", "Cost of an image",
      "What half of the images cost at most, its 95\u202f% interval over images beneath, then from one in ten to nine in ten of them; by how far "
        + "an image is changed, and by the price c* of a flagged answer. At c* = 1 a cost is a number of queries; the column of flagged answers alone counts these only. "
        + "Images that no attack brought so near count as infinite.",
      box("Table of costs", make("table", { class: "results" },
        make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Changed by at most"),
          ...heads.map((name) => make("th", { scope: "col" }, name)))), make("tbody", null, ...rows))));
  }

  function evenTable() {
    if (!measured) return;
    const worths = [...new Set(data.break_even.map((row) => row.worth))];
    const cells = (n) => data.break_even.filter((row) => row.level === n).map(({ quantiles, pays_at_1: pays }) => {
      const most = quantiles[2], half = quantiles[1];
      const shown = (value) => (value === null ? "∞" : value === 0 ? "0" : costly(value));
      return make("td", null, make("span", null, shown(most.value)), small(`[${shown(most.low)}, ${shown(most.high)}]`),
        small(`half: ${shown(half.value)}`), small(`${percent(pays)} pay at c* = 1`));
    });
    section("even", "Break-even prices",
      "The price of a flagged answer above which these attacks no longer pay on nine in ten images, its 95\u202f% interval beneath; then the same for half of them. "
        + "That is the break-even price of each image, in the closed form (worth − others) / flagged, the largest over all runs. ∞: no price is too high, since no flagged answer was needed. 0: none pays at any price.",
      box("Table of break-even prices", make("table", { class: "results" },
        make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Changed by at most"),
          ...worths.map((value) => make("th", { scope: "col" }, `worth ${count(value)}`)))),
        make("tbody", null, ...data.levels.map((each, n) => make("tr", null, make("th", { class: "text method", scope: "row" }, levelName(each)), ...cells(n)))))));
  }

  function suite() {
    if (!data.runs.length) return;
    const here = data.levels[data.headline];
    const timed = data.times.some(({ seconds }) => seconds !== null);
    const prices = data.prices.filter((price) => data.runs.some((run) => run.price === price));
    const heads = make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Attack"),
      ...prices.map((price) => make("th", { scope: "col" }, priceName(price)))));
    const rows = data.suite.attacks.map((attack) => make("tr", { "data-attack": attack },
      make("th", { class: "text method", scope: "row" }, attack),
      ...prices.map((price) => {
        const run = data.runs.find((each) => each.attack === attack && each.price === price);
        if (!run) return make("td", { "aria-label": "not measured" }, "–");
        const { seconds, speed } = data.times[data.runs.indexOf(run)];
        const won = (data.cheapest.find((each) => each.price === price).images)[attack] || 0;
        return make("td", null, make("span", null, costly(run.cost)), small(`reached ${percent(run.reached)}`),
          small(`${count(Math.round(run.queries))} queries, ${count(Math.round(run.flagged))} flagged`), small(`cheapest for ${won}`),
          ...(seconds === null ? [] : [small(`${costly(seconds)} s${speed === null ? "" : `, ${costly(speed)} queries/s`}`)]));
      })));
    const best = make("tr", { class: "all" }, make("th", { class: "text method", scope: "row" }, "best of all, for each image"),
      ...prices.map((price) => {
        const row = data.costs.find((each) => each.level === data.headline && each.price === price);
        return make("td", null, make("span", null, costly(row.quantiles[1].value)), small(`reached ${percent(1 - row.never)}`));
      }));
    section("suite", "The suite",
      `Each attack at the price that it planned with: what half of the images cost to bring within ${levelWords(here)}; beneath, the share that was, `
        + "queries and flagged answers of a whole run in the mean, and for how many images it is the cheapest of all at that price.",
      box("Table of attacks", make("table", { class: "results" }, heads, make("tbody", null, ...rows, best))),
      ...(timed ? [make("p", { class: "small" }, "Seconds are those of all engines together, without the loading of the model; the time of a batch is split among attacks by their rows.")] : []));
  }

  // Over all budgets -------------------------------------------------------------------------------------

  function ranking() {
    const { against: reference, cap, costs, standings } = data.ranking;
    if (!standings.length) return;
    const shown = (found) => (found ? [number(found.value), `[${number(found.low)}, ${number(found.high)}]`] : ["–", ""]);
    const heads = make("thead", null, make("tr", null, make("th", { class: "text method", scope: "col" }, "Attack"),
      ...costs.map(({ price, first, last }) => make("th", { scope: "col" }, priceName(price), small(`costs ${count(first)} to ${count(last)}`)))));
    const rows = data.suite.attacks.map((attack) => make("tr", { "data-attack": attack },
      make("th", { class: "text method", scope: "row" }, attack),
      ...costs.map(({ price }) => {
        const found = standings.find((each) => each.attack === attack && each.price === price);
        if (!found) return make("td", { "aria-label": "not measured" }, "–");
        const [ratio, between] = attack === reference ? ["1", "the reference"] : shown(found.G);
        return make("td", null, make("span", null, ratio), small(between), small(`O ${shown(found.O).join(" ")}`));
      })));
    section("ranking", "Over all budgets",
      `How near each attack is, whatever it may cost: G, the part of ${reference}'s distance that it has at the same cost, the geometric mean over images and over costs that `
        + "are equal ratios apart; below 1 it is nearer. Beneath it O: 1 if at every cost it is where the nearest of all these runs ends, 0 if it never finds an adversarial image.",
      box("Table of the ranking", make("table", { class: "results" }, heads, make("tbody", null, ...rows))),
      make("p", { class: "small" }, `No adversarial image yet counts as ${cap}. Intervals are of 95\u202f%, over images.`));
  }

  // Where the cost went --------------------------------------------------------------------------------

  const phaseNames = [...new Set(data.runs.flatMap(({ phases }) => Object.keys(phases)))];

  function phasesChart() {
    const found = data.runs.filter((run) => String(run.price) === state.phasePrice);
    const rows = found.map((_, i) => i);
    return {
      traces: phaseNames.map((phase, i) => ({
        type: "bar", orientation: "h", name: plain(phase), y: rows, x: found.map((run) => run.phases[phase] || 0),
        marker: { color: PHASES[i % PHASES.length] }, hoverinfo: "text", textposition: "none",
        hovertext: tips(found.map((run) => [`${bold(run.attack)}, ${plain(phase)}`, `${percent(run.phases[phase] || 0)} of the cost`])),
      })),
      layout: layout(axis("share of the cost", "linear", [], { tickformat: ".0%", range: [0, 1] }), axis("", "linear", [], {
        tickvals: rows, ticktext: found.map((run) => plain(run.attack)), showgrid: false, range: [found.length - 0.5, -0.5],
        tickfont: { color: theme("--ink"), size: 13 },
      }), { barmode: "stack", bargap: 0.35, height: 110 + 34 * found.length, margin: { l: 48, r: 14, t: 32, b: 44 } }),
      label: "Share of the cost by phase, for each attack.",
    };
  }

  function phases() {
    if (!phaseNames.length) return;
    const keys = phaseNames.map((phase, i) => make("span", { class: "key fixed" },
      drawn("svg", { width: 12, height: 12, "aria-hidden": "true" }, drawn("rect", { width: 12, height: 12, fill: PHASES[i % PHASES.length] })), phase));
    const prices = data.prices.filter((price) => data.runs.some((run) => run.price === price));
    section("phases", "Where the cost went", "What a run spent on its start, on searches along a line, on estimates of a direction, and on the rest, at the price that it planned with.",
      toolbar(choice("phasePrice", "Price", prices.map((price) => ({ value: String(price), label: priceName(price) })))),
      make("div", { class: "legend" }, ...keys), chart("phases-chart", ["phasePrice"], phasesChart));
  }

  // How it was computed ----------------------------------------------------------------------------------

  function method() {
    const { budget, budgets, attacks } = data.suite;
    const each = budgets.map(({ price, budget: most, queries }) =>
      (price === "inf" ? `flagged answers alone count: ${count(queries)} queries` : `${priceName(price)}: ${count(most)}`)).join("; ");
    section("method", "How it was computed", null, items([
      `Attacks, in this order: ${attacks.join(", ")}. Each was run on every image at every price, and planned with that price.`,
      `What a run may cost grows with the price, from ${count(budget)} where all answers cost 1: ${each}. The image itself is the first query.`,
      "Each point that was nearer than all before it has an account: so many flagged answers and so many others until then. At any price c an image costs the least others + c × flagged over all runs, whatever they planned with, and over their points within the distance. Nothing is interpolated, and no run was made for other prices.",
      "An attacker who does not know which attack is cheapest for an image pays more than that; one who knows better attacks may pay less.",
      "A quantile is the smallest cost at which at least that share of the images is reached. Intervals are of 95\u202f%, by drawing images 2000 times with replacement.",
      "Images that the model misclassifies need no attack: they are left out, and counted above.",
    ]));
  }

  // Compared with another audit --------------------------------------------------------------------------

  function against() {
    const other = data.against;
    if (!other) return;
    const x = other.curves.steps;
    const first = x.findIndex((_, i) => [...other.curves.this, ...other.curves.other].some((line) => line.middle[i] !== null));
    const pairs = [["this", other.curves.this, "solid"], ["other", other.curves.other, "dash"]];
    const both = first < 0 ? null : chart("against-chart", [], () => {
      const traces = pairs.flatMap(([which, curves, dash]) => curves.map((line, i) => ({
        type: "scatter", mode: "lines", x, y: line.middle, hoverinfo: "text", connectgaps: false,
        line: { color: lineColour(i), width: 2.4, dash },
        hovertext: tips(x.map((at, n) => [`${bold(which === "this" ? other.name : other.other)}, ${plain(priceName(line.price))}`,
          `changed by at most ${number(at)}/255`, `half of the images: ${costly(line.middle[n])}`])),
      })));
      return {
        traces, layout: layout({ ...epsilonAxis(x), range: [x[first], x[x.length - 1]].map(Math.log10) }, costAxis(), { height: 420 }),
        label: `Cost of an image against its change: ${other.name} and ${other.other}.`,
      };
    });
    const prices = [...new Set(other.ratios.map((row) => row.price))];
    const oneSided = ([here, there]) => (here < 0.5 && there < 0.5 ? "not reached by half" : `half on ${here < there ? other.other : other.name} alone`);
    const rows = other.levels.map((each, n) => make("tr", null, make("th", { class: "text method", scope: "row" }, levelName(each)),
      ...other.ratios.filter((row) => row.level === n).map(({ ratio, low, high, reached }) => make("td", null,
        make("span", null, ratio === null ? "–" : number(ratio)),
        small(ratio === null ? oneSided(reached) : `[${low === null ? "–" : number(low)}, ${high === null ? "∞" : number(high)}]`),
        small(`reached ${percent(reached[0])}, ${percent(reached[1])}`)))));
    section("against", `Beside ${other.other}`,
      `On the ${count(other.images)} images that both audits have. A solid line is what half of them cost on ${other.name}, a dashed one on ${other.other}; the table has the `
        + "ratio of the two, above 1 where this one costs more, with 95\u202f% intervals over draws of the same images for both.",
      ...other.verdict.map((text) => make("p", { class: "verdict" }, ...explained(text))),
      make("div", { class: "legend" }, ...prices.filter((price) => price !== "inf").map((price, i) => make("span", { class: "key fixed" }, swatch(i), priceName(price)))),
      ...(both ? [both] : []),
      box("Table of ratios", make("table", { class: "results" }, make("thead", null, make("tr", null,
        make("th", { class: "text method", scope: "col" }, "Changed by at most"), ...prices.map((price) => make("th", { scope: "col" }, priceName(price))))),
      make("tbody", null, ...rows))));
  }

  for (const build of [against, verdict, uneconomic, boundaries, weakest, costTable, evenTable, suite, ranking, phases, method]) build();
  environment(data);
  finish(data.title, data.made);
})();

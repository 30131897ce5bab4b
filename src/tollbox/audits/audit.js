/* The script of an audit's page; `shared.js` has what all pages share.

   1. null is infinite: no run reached the image, or no price is high enough. In text it is ∞ or a
      word, in a curve a gap.
   2. Results for the worth, price and ε that a reader enters are computed here from the accounts
      (flagged, others) of each image, by the rules of `costs.py`.
   3. A section without data is left out. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const TERMS = {
    "c*": "What a flagged answer costs; any other answer costs 1",
    flagged: "An answer is flagged if it is the image's own class, or one of the audit's flagged classes",
    RMS: "Root mean square of the change over all values of an image, in steps of 8-bit pixels; it is 255 times the "
      + "ℓ2 distance over the square root of the number of values",
    "break-even": "The largest price of a flagged answer at which the cheapest attack on an image costs at most its worth",
  };
  const PHASES = ["#76818f", "#2f7f95", "#a58a2b", "#9a6bb0", "#5b8c4a", "#b0655b"];
  const COLOURS = ["--attack-0", "--attack-2", "--attack-5", "--attack-1", "--attack-3", "--attack-4"];
  const measured = data.images.measured;
  const worth = data.criteria.worth;
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
  const priceName = (price) => (price === "inf" ? "flagged answers only" : `c*\u00a0=\u00a0${count(price)}`);
  const levelName = (level) => `${Number(level.steps.toPrecision(3))}/255`;
  const levelWords = (level) => `${levelName(level)} RMS (ℓ2 ${number(level.epsilon)})`;
  const level = () => data.levels[state.level];
  const levelChoice = () => choice("level", "Changed by at most",
    data.levels.map((each, value) => ({ value, label: levelName(each) })));

  // Costs: the rules of `costs.py` -----------------------------------------------------------------

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

  /** A band from the lowest of three curves to the highest known one. */
  function band(x, { low, middle, high }, colour) {
    const piece = (top, from) => x.map((_, i) => i).filter((i) => from(i) && top[i] !== null).map((i) => [i, top[i]]);
    const partly = (i) => high[i] === null || (i > 0 && high[i - 1] === null); // up to the start of the whole band
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
      make("p", { class: "how" }, ...explained("A line is the maximum cost of half of the images; the shade goes from one in ten to nine "
        + "in ten of them. Smaller changes, to the left, cost more to find. c* is the price of a flagged answer. "
        + "RMS is the mean change of a pixel. The cost of an image is that of the cheapest recorded attack on it at "
        + "that price, as if the attacker knew which to use. Where a line stops, fewer than half of the images were reached; where the "
        + "shade stops at the line, fewer than nine in ten.")),
    ] : [];
    section("verdict", "Summary", null, ...data.verdict.map((text) => make("p", { class: "verdict" }, ...explained(text))), ...figure);
  }

  // What would make attacks unprofitable-----------------------------------------------------------------

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
          even === 0 ? "is enough: these attacks are unprofitable on nine in ten images"
            : Number.isFinite(even) ? "a flagged answer must cost more than this to make these attacks unprofitable on nine in ten images"
              : "is high enough: some attacks needed no flagged answer"),
        tile(percent(pays), `of the images are worth attacking if a flagged answer costs ${count(state.price)}`),
        tile(costly(finite(median)), `is the maximum cost of half of the images if a flagged answer costs ${count(state.price)}`),
        tile(costly(finite(few)), `flagged answer${few === 1 ? " is" : "s are"} enough for one in ten images, including the one to the image itself`));
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
      }, "flagged answers allowed", "Share of the images attacked successfully within a limit on flagged answers.");
      parts.push(
        make("div", { class: "asked" }, field("worth", "A changed image is worth", 0), field("price", "A flagged answer costs", 0), levelChoice()),
        tiles(),
        make("div", { class: "pair" },
          make("div", null, make("h3", null, "By price: images worth attacking"), pays),
          make("div", null, make("h3", null, "By limit: images attacked successfully"), limits)));
    }
    section("uneconomic", "What would make attacks unprofitable",
      "The unit is the price of an answer that is not flagged. Prices are lower bounds: stronger attacks may require higher ones. "
        + "Change the numbers to see other results; nothing is run.",
      ...parts, make("h3", null, "Recommendations"), items(data.advice));
  }

  // Limits ----------------------------------------------------------------------------------------------

  const LIMITS = [
    "Costs are upper bounds: other attacks, a surrogate, or knowledge of the model may need less. An image that was not reached within the budgets is not known to be safe.",
    "Limits are measured per image. Attackers who open a new account after one is closed are not considered.",
    "Changes are measured by their ℓ2 distance only. Whether a change is visible, or matters, is not measured.",
  ];

  function boundaries() {
    section("limits", "Limits", null, make("div", { class: "notes" }, items([...data.notes, ...LIMITS])));
  }

  // The weakest images -------------------------------------------------------------------------------

  function weakest() {
    const { note, factor, images } = data.weakest_images;
    if (!data.weakest.length) return;
    const shown = data.weakest.map((each) => {
      const seen = images.find(({ place }) => place === each.image);
      const words = make("figcaption", null, make("b", null, `${each.name} (${each.label})`),
        `${costly(each.cost)} at ${priceName(data.reference)}: ${count(each.flagged)} flagged, ${count(each.others)} others, by ${each.attack} `
          + `planned for ${priceName(each.planned)}; smallest ℓ2 ${number(each.distance)}`);
      return make("figure", null, seen ? make("div", { class: "three" },
        picture(seen.original, `Original ${each.name}`), picture(seen.changed, `Changed ${each.name}`),
        picture(seen.difference, `Difference, amplified ${factor} times`)) : null, words);
    });
    section("weakest", "The weakest images",
      `The images with the lowest cost at c* = ${data.reference} within ${levelWords(data.levels[data.headline])}. From left to right: the original, the changed image with the smallest distance of the `
        + `cheapest run, and the difference around grey, amplified ${factor} times everywhere.`,
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
    const heads = [...data.prices.map(priceName), ...(data.policy ? [`prices of ${data.criteria.policy.name}`] : [])];
    const rows = data.levels.map((each, n) => make("tr", null,
      make("th", { class: "text method", scope: "row" }, `${levelName(each)}`, small(`ℓ2 ${number(each.epsilon)}; reached ${percent(each.reached)}`)),
      ...data.costs.filter((row) => row.level === n).map(quantileCell),
      ...(data.policy ? [quantileCell(data.policy[n])] : [])));
    section("costs", "Cost of an image",
      "The maximum cost of half of the images, with its 95\u202f% interval over images below, then that of one in ten to nine in ten of them; by the "
        + "change of an image and the price c* of a flagged answer. At c* = 1 the cost is the number of queries. The last column counts flagged answers only. "
        + "Images that no attack reached count as infinite.",
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
        small(`half: ${shown(half.value)}`), small(`${percent(pays)} profitable at c* = 1`));
    });
    section("even", "Break-even prices",
      "The price of a flagged answer above which these attacks are unprofitable on nine in ten images, with its 95\u202f% interval below; then the same for half of them. "
        + "The break-even price of an image is (worth − others) / flagged, the largest over all runs. ∞: no price is high enough, because no flagged answer was needed. 0: no attack is profitable at any price.",
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
      `Each attack at the price that it planned with: the maximum cost of half of the images within ${levelWords(here)}. Below are the share of images reached, `
        + "the average number of queries and flagged answers per run, and for how many images the attack is the cheapest at that price.",
      box("Table of attacks", make("table", { class: "results" }, heads, make("tbody", null, ...rows, best))),
      ...(timed ? [make("p", { class: "small" }, "Seconds are summed over all workers, without the loading of the model; the time of a batch is split among attacks by their rows.")] : []));
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
      `G is the attack's distance relative to ${reference} at the same cost: the geometric mean over images and log-spaced costs. Below 1 the attack has the smaller distance. `
        + "O below it is 1 if the attack has the smallest distance of all runs at every cost, and 0 if it never finds an adversarial image.",
      box("Table of the ranking", make("table", { class: "results" }, heads, make("tbody", null, ...rows))),
      make("p", { class: "small" }, `A run without an adversarial image counts as ${cap}. Brackets are 95\u202f% intervals over images.`));
  }

  // Cost by phase --------------------------------------------------------------------------------------

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
    section("phases", "Cost by phase", "The share of a run's cost for its start, searches along a line, estimates of a direction, and the rest, at the price that it planned with.",
      toolbar(choice("phasePrice", "Price", prices.map((price) => ({ value: String(price), label: priceName(price) })))),
      make("div", { class: "legend" }, ...keys), chart("phases-chart", ["phasePrice"], phasesChart));
  }

  // Method ------------------------------------------------------------------------------------------------

  function method() {
    const { budget, budgets, attacks } = data.suite;
    const each = budgets.map(({ price, budget: most, queries }) =>
      (price === "inf" ? `flagged answers only: ${count(queries)} queries` : `${priceName(price)}: ${count(most)}`)).join("; ");
    section("method", "Method", null, items([
      `Attacks, in this order: ${attacks.join(", ")}. Each ran on every image at every price, and planned with that price.`,
      `The budget of a run grows with the price, from ${count(budget)} if all answers cost 1: ${each}. The image itself is the first query.`,
      "The account of a run is its number of flagged and of other answers up to its first point within the distance. At any price c, the cost of an image is the smallest others + c × flagged over all runs, whatever price they planned with. Nothing is interpolated, and other prices need no runs.",
      "An attacker who does not know which attack is the cheapest for an image pays more; one with stronger attacks may pay less.",
      "A quantile is the smallest cost at which at least that share of the images is reached. Intervals are 95\u202f% intervals from 2,000 draws of images with replacement.",
      "Images that the model misclassifies need no attack: they are left out and counted above.",
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
    const oneSided = ([here, there]) => (here < 0.5 && there < 0.5 ? "not reached by half" : `half on ${here < there ? other.other : other.name} only`);
    const rows = other.levels.map((each, n) => make("tr", null, make("th", { class: "text method", scope: "row" }, levelName(each)),
      ...other.ratios.filter((row) => row.level === n).map(({ ratio, low, high, reached }) => make("td", null,
        make("span", null, ratio === null ? "–" : number(ratio)),
        small(ratio === null ? oneSided(reached) : `[${low === null ? "–" : number(low)}, ${high === null ? "∞" : number(high)}]`),
        small(`reached ${percent(reached[0])}, ${percent(reached[1])}`)))));
    section("against", `Compared with ${other.other}`,
      `On the ${count(other.images)} images that both audits have. Solid lines are the maximum cost of half of them on ${other.name}, dashed lines on ${other.other}. The table shows the `
        + "ratio of the two, with its 95\u202f% interval over draws of the same images; above 1 this model costs more. A difference is significant if the interval excludes 1.",
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

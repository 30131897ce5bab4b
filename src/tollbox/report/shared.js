/* Shared by all pages: numbers as text, elements, sections, choices, charts, the theme.

   1. Text of the data goes into the document by `make` (text nodes), and into charts by `plain`;
      it never becomes markup. Images that are not data URIs are not shown.
   2. Nothing is fetched.
   3. `state` holds the choices. Controls set it with `choose`; everything that depends on a choice
      registers with `follow`, so that the whole page shows the same choice.
   4. null is infinite or unknown: "∞" in text.
   5. Numbers have the format of `formatting.py`. A word of `terms` is explained where a section
      first uses it (`explained`). */
"use strict";
const pageTools = (state, terms) => {
  const main = document.getElementById("main");
  const CONFIG = {
    displaylogo: false, // no button that would send the chart anywhere
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
    responsive: true,
    toImageButtonOptions: { format: "svg", filename: "tollbox" },
  };

  // Text and numbers ---------------------------------------------------------------------------

  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

  /** Three significant digits, with commas between thousands. */
  function number(value) {
    if (value === null || value === undefined) return "∞";
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size < 1e-3 || size >= 1e7) return value.toExponential(2).replace("e+", "e");
    if (size >= 999.5) return grouped(String(Number(value.toPrecision(3))));
    return value.toPrecision(3);
  }

  /** A count: in full if it is whole. */
  const count = (value) => (Number.isInteger(value) ? grouped(String(value)) : number(value));
  /** All digits, for levels and budgets. */
  const exact = (value) => (value === null ? "∞" : Number.isInteger(value) ? count(value) : String(value));
  const percent = (share) => `${Number((100 * share).toPrecision(3))}\u202f%`;
  const interval = (low, high) => `[${number(low)}, ${number(high)}]`;
  const sure = (low, high) => `95\u202f% CI ${number(low)}–${number(high)}`;

  /** Text as a chart shows it literally: charts know a few tags. */
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const words = new RegExp(Object.keys(terms)
    .map((word) => (/^\w.*\w$/.test(word) ? `\\b${word}\\b` : word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))).join("|"));

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

  /** A technical term; its meaning appears on hover, focus or touch. */
  const term = (word, meaning) =>
    make("abbr", { class: "term", tabindex: "0", title: meaning, "data-meaning": meaning }, word);

  /** Text in which each of `terms` is explained at its first use; `seen` has those already explained. */
  function explained(text, seen = new Set()) {
    const parts = [];
    let rest = text;
    for (let match; (match = words.exec(rest));) {
      const word = match[0], end = match.index + word.length;
      parts.push(rest.slice(0, match.index), seen.has(word) ? word : term(word, terms[word]));
      seen.add(word);
      rest = rest.slice(end);
    }
    return [...parts, rest];
  }

  function drawn(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function picture(uri, alt) {
    if (!/^data:image\/(png|jpeg|webp|gif);base64,/.test(uri)) return make("p", null, `(${alt}: no image)`);
    const image = make("img", { src: uri, alt });
    image.addEventListener("load", () => image.classList.toggle("coarse", image.naturalWidth < 120));
    return image;
  }

  const sections = [];

  /** A section with a heading and an explanation. */
  function section(id, title, how, ...children) {
    const heading = make("h2", { id: `${id}-title` }, title);
    const reading = how ? make("p", { class: "how" }, ...explained(how)) : null;
    main.append(make("section", { id, "aria-labelledby": heading.id }, heading, reading, ...children));
    sections.push([id, title]);
  }

  /** A frame that scrolls sideways, and says so if some columns are hidden. */
  function box(label, child) {
    const inside = make("div", { class: "box", tabindex: "0", role: "region", "aria-label": label }, child);
    const hint = make("p", { class: "hint", hidden: true }, "Scroll sideways for more columns →");
    const frame = make("div", { class: "frame" }, hint, inside);
    const look = () => {
      const hidden = inside.scrollWidth - inside.clientWidth;
      hint.hidden = hidden < 2;
      frame.classList.toggle("more", hidden - inside.scrollLeft >= 2);
    };
    inside.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(inside);
    return frame;
  }

  // State --------------------------------------------------------------------------------------

  const followers = [];

  /** Do this whenever one of these choices changes, and once at the start. */
  const follow = (keys, act) => followers.push({ keys, act });

  function choose(key, value) {
    state[key] = value;
    for (const { keys, act } of followers) if (keys.includes(key)) act();
  }

  let controls = 0;

  /** A choice: buttons if there are few and short options, otherwise a list; nothing for one option. */
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

  // Charts -------------------------------------------------------------------------------------

  const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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
    const touch = matchMedia("(pointer: coarse)").matches; // a drag scrolls the page there
    return {
      xaxis: x, yaxis: y, font, showlegend: false, hovermode: "closest", hoverdistance: 40, separators: ".,",
      paper_bgcolor: theme("--paper"), plot_bgcolor: theme("--paper"), dragmode: touch ? false : "zoom",
      margin: { l: 48, r: 14, t: 30, b: 44 }, height: 420,
      hoverlabel: {
        bgcolor: theme("--raised"), bordercolor: theme("--edge"), align: "left",
        font: { ...font, size: 12.5 },
      }, ...more,
    };
  }

  /** A chart that is redrawn whenever one of its choices changes. */
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

  // Words, environment, theme -------------------------------------------------------------------

  const items = (lines) => {
    const seen = new Set();
    return make("ul", null, ...lines.map((text) => make("li", null, ...explained(text, seen))));
  };

  function copy(block, button) {
    const range = document.createRange();
    range.selectNodeContents(block);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const done = document.execCommand("copy");
    button.textContent = done ? "Copied" : "Selected: copy with Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  /** The software behind a page, and the commands that repeat it. */
  function environment({ environment: values, commands }) {
    const facts = Object.entries(values);
    if (!facts.length && !commands.length) return;
    const parts = [];
    if (facts.length) {
      parts.push(make("table", { class: "facts" }, make("tbody", null,
        ...facts.map(([name, value]) => make("tr", null, make("th", { scope: "row" }, name), make("td", null, String(value)))))));
    }
    if (commands.length) {
      const block = make("pre", { tabindex: "0", "aria-label": "Commands" }, commands.join("\n"));
      const button = make("button", { type: "button", on: { click: () => copy(block, button) } }, "Copy");
      parts.push(make("h3", null, "Commands"), make("div", { class: "commands" }, block, button));
    }
    section("environment", "Environment",
      "The software that produced the numbers, and the commands that repeat them.", ...parts);
  }

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

  /** Add the head of the page after all sections, and show everything. */
  function finish(title, ...lines) {
    const links = sections.map(([id, name]) => make("li", null, make("a", { href: `#${id}` }, name)));
    document.getElementById("top").append(
      make("div", { class: "head" }, make("h1", null, title), themeButton()),
      ...lines.map((line) => make("p", { class: "made" }, ...explained(line))),
      make("nav", { "aria-label": "Sections" }, make("ul", null, ...links)));
    for (const { act } of followers) act();
  }

  return {
    grouped, number, count, exact, percent, interval, sure, plain, make, term, explained, drawn, picture, section, box,
    follow, choose, choice, tick, toolbar, theme, axis, layout, chart, numbers, tips, bold, items, environment, finish,
  };
};

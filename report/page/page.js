// The page's script: makes tabs of the sections and draws the roll.
//
// Names of anybody's reach the page as text only: textContent, and fillText on a canvas. Nothing is
// made of markup here, nothing is loaded, and nothing is said of the verdict: its words are in the
// document already.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("rollcall-data").textContent);

  // ---- Small helpers -------------------------------------------------------------------------

  // An element with a class, text and children.
  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

  // "0-2,5" -> whether it holds a rank.
  function holds(list, rank) {
    return list.split(",").some((range) => {
      const [first, last] = range.split("-").map(Number);
      return rank >= first && rank <= (last === undefined ? first : last);
    });
  }

  // ---- Links: "#tab&comm=KEY&rank=R&seq=S" ---------------------------------------------------

  function readLink() {
    const [tab, ...pairs] = location.hash.slice(1).split("&");
    const link = { tab };
    for (const pair of pairs) {
      const [name, value] = pair.split("=");
      link[name] = value;
    }
    return link;
  }

  function writeLink(link) {
    const pairs = ["comm", "rank", "seq"].filter((name) => link[name] !== undefined)
      .map((name) => `${name}=${link[name]}`);
    history.replaceState(null, "", "#" + [link.tab, ...pairs].join("&"));
  }

  // ---- Tabs ----------------------------------------------------------------------------------

  const nav = document.getElementById("tabs");
  const tabs = [...nav.querySelectorAll("a")];
  const sections = [...document.querySelectorAll("main > section")];
  let openTab = "";

  function open(id, focus) {
    if (!sections.some((section) => section.id === id)) id = sections.length ? sections[0].id : "";
    openTab = id;
    for (const section of sections) section.hidden = section.id !== id;
    for (const tab of tabs) {
      const isOpen = tab.dataset.section === id;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
      if (isOpen && focus) tab.focus();
      if (isOpen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    if (roll && id === "roll") roll.layout();
    letTablesScroll();
  }

  // A table that is wider than its place is scrolled by keys, too.
  function letTablesScroll() {
    const section = sections.find((one) => one.id === openTab);
    const title = tabs.find((tab) => tab.dataset.section === openTab);
    for (const place of section ? section.querySelectorAll(".table") : []) {
      const isWide = place.scrollWidth > place.clientWidth;
      if (!isWide) {
        for (const name of ["tabindex", "role", "aria-label"]) place.removeAttribute(name);
        continue;
      }
      place.tabIndex = 0;
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", `${title.textContent}, a table`);
    }
  }

  function setUpTabs() {
    document.documentElement.classList.add("scripted");
    nav.setAttribute("role", "tablist");
    for (const tab of tabs) {
      tab.dataset.section = tab.getAttribute("href").slice(1);
      tab.id = `tab-${tab.dataset.section}`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", tab.dataset.section);
      tab.addEventListener("click", (event) => {
        event.preventDefault();
        open(tab.dataset.section, true);
        writeLink(tab.dataset.section === "roll" && roll ? roll.link() : { tab: openTab });
      });
    }
    for (const section of sections) {
      section.setAttribute("role", "tabpanel");
      section.setAttribute("aria-labelledby", `tab-${section.id}`);
    }
    nav.addEventListener("keydown", (event) => {
      const at = tabs.findIndex((tab) => tab.dataset.section === openTab);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      tabs[(to + tabs.length) % tabs.length].click();
    });
  }

  // ---- The roll: its data --------------------------------------------------------------------

  const DIFFERS = data.states.length;  // behind the states of the data: another call than usual
  const glyphs = [...data.states.map((state) => state[2]), "\u2260"];
  const names = [...data.states.map((state) => state[1]), "differs"];
  const words = [...data.states.map((state) => state[3]), "another call than the others"];
  // What stands out most where a pixel is several cells.
  const importance = { differs: 9, absent: 8, failed: 7, called: 6, started: 5, launched: 4,
    returned: 3, lost: 2, finished: 1 };
  const byLetter = {};
  data.states.forEach((state, at) => { byLetter[state[0]] = at; });

  const processByLabel = new Map(data.ranks.label.map((label, at) => [label, at]));

  // The processes of the ranks of a list.
  function processesOf(list) {
    const processes = [];
    for (const range of list.split(",")) {
      const [first, last] = range.split("-").map(Number);
      for (let label = first; label <= (last === undefined ? first : last); ++label) {
        const process = processByLabel.get(label);
        if (process !== undefined) processes.push(process);
      }
    }
    return processes;
  }

  // The hosts of the ranks of a list, the first few by name.
  function hostsOf(list) {
    const hosts = new Set(processesOf(list).map(
      (process) => data.ranks.hosts[data.ranks.host[process]]));
    hosts.delete("");
    const shown = [...hosts].slice(0, 4).join(", ");
    return hosts.size <= 4 ? shown : `${shown} and ${(hosts.size - 4).toLocaleString("en")} more`;
  }

  // A communicator's roll, unfolded: a byte for each cell.
  function unfold(source) {
    const columns = source.usual.length;
    const rows = source.rows.ranks.length;
    const states = new Uint8Array(rows * columns);
    const calls = new Map();  // cell -> call, where it is not the usual one
    for (let row = 0; row < rows; ++row) {
      let at = row * columns;
      for (const [, letter, count] of source.rows.states[row].matchAll(/([a-z])(\d*)/g)) {
        const end = at + (count === "" ? 1 : Number(count));
        states.fill(byLetter[letter], at, end);
        at = end;
      }
      const others = source.rows.others[row];
      for (let i = 0; i < others.length; i += 2) {
        calls.set(row * columns + others[i], others[i + 1]);
      }
    }
    const seqs = [];
    for (const [first, count] of source.stretches) {
      for (let i = 0; i < count; ++i) seqs.push(first + i);
    }
    const unlike = new Set();  // cells whose call, not only its line, is another than the usual one
    for (const [cell, call] of calls) {
      const usual = source.usual[cell % columns];
      if (usual >= 0 && source.calls[usual][0] !== source.calls[call][0]) unlike.add(cell);
    }
    const column = seqs.indexOf(source.seq);
    const hasLines = source.calls.some((call) => call[1] !== "");
    return { source, columns, rows, states, calls, seqs, unlike, hasLines,
      marked: source.seq === null || column < 0 ? -1 : column };
  }

  // ---- The hosts: a square each, in the order of their ranks ----------------------------------

  class Hosts {
    constructor(roll) {
      this.roll = roll;
      this.place = make("div", "hosts");
      this.canvas = make("canvas");
      this.canvas.setAttribute("role", "img");
      this.caption = make("p", "quiet");
      this.place.append(this.canvas, this.caption);
      this.canvas.addEventListener("click", (event) => this.click(event));
    }

    // Of each host the worst that a rank of it is in where the verdict is about, a culprit before
    // all others.
    count() {
      const found = new Map();
      const rows = this.roll.now.source.rows;
      for (let row = 0; row < this.roll.now.rows; ++row) {
        if (rows.process[row] < 0) continue;  // no file says where it is
        const state = this.roll.shows(row, this.roll.focusColumn);
        const isCulprit = rows.culprit[row] === 1;
        const weight = (importance[names[state]] || 0) + (isCulprit ? 100 : 0);
        for (const process of processesOf(rows.ranks[row])) {
          const host = data.ranks.host[process];
          const known = found.get(host) || { host, ranks: 0, weight: -1 };
          found.set(host, known);
          ++known.ranks;
          if (weight > known.weight) Object.assign(known, { weight, row, state, isCulprit });
        }
      }
      this.all = [...found.values()].filter((one) => data.ranks.hosts[one.host] !== "")
        .sort((a, b) => a.host - b.host);
      this.place.hidden = this.all.length < 2;
      const blamed = this.all.filter((one) => one.isCulprit)
        .map((one) => data.ranks.hosts[one.host]);
      const shown = blamed.slice(0, 3).join(", ");
      const more = blamed.length > 3 ? ` and ${(blamed.length - 3).toLocaleString("en")} more` : "";
      this.say(`${this.all.length.toLocaleString("en")} hosts, each as the worst of its ranks` +
        (shown === "" ? "" : `; the culprit is on ${shown}${more}`));
    }

    say(text) {
      this.caption.textContent = text;
      this.canvas.setAttribute("aria-label", text);
    }

    draw() {
      const width = this.place.clientWidth;
      if (this.place.hidden || width === 0) return;
      const colours = this.roll.palette();
      this.size = clamp(Math.floor(Math.sqrt(width * 44 / this.all.length)), 3, 18);
      this.perLine = Math.max(Math.floor(width / this.size), 1);
      const height = Math.ceil(this.all.length / this.perLine) * this.size;
      const ratio = devicePixelRatio || 1;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
      const context = this.canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.font = `${Math.round(this.size * 0.6)}px system-ui, sans-serif`;
      const side = this.size - (this.size >= 5 ? 1 : 0);
      this.all.forEach((one, at) => {
        const x = at % this.perLine * this.size;
        const y = Math.floor(at / this.perLine) * this.size;
        const isBlamed = one.isCulprit || names[one.state] === "absent";
        context.fillStyle = isBlamed && this.size < 10 ? colours.culprit : colours.cells[one.state];
        context.fillRect(x, y, side, side);
        if (this.size < 10) return;
        const isStrong = ["differs", "failed"].includes(names[one.state]);
        context.fillStyle = isStrong ? colours["cell-ink-strong"]
          : isBlamed ? colours.culprit : colours["cell-ink"];
        context.fillText(glyphs[one.state], x + side / 2, y + side / 2 + 0.5);
        if (!isBlamed) return;
        context.strokeStyle = colours.culprit;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, side - 2, side - 2);
      });
    }

    click(event) {
      const column = Math.floor(event.offsetX / this.size);
      const one = this.all[Math.floor(event.offsetY / this.size) * this.perLine + column];
      if (column >= this.perLine || !one) return;
      const ranks = one.ranks === 1 ? "1 rank" : `${one.ranks.toLocaleString("en")} ranks`;
      this.say(`${data.ranks.hosts[one.host]}: ${ranks}, the worst: ${words[one.state]}`);
      if (this.roll.visible.includes(one.row)) this.roll.pick(one.row, this.roll.focusColumn);
    }
  }

  // ---- The roll: drawing and moving ----------------------------------------------------------

  class Roll {
    constructor(place) {
      this.place = place;
      this.cellWidth = 20;
      this.cellHeight = 22;
      this.filter = -1;  // a state at the place of the first difference; -2: culprits
      this.words = "";   // of the search
      this.build();
      this.choose(0);
    }

    build() {
      const tools = make("div", "tools");
      if (data.rolls.length > 1) {
        this.select = make("select");
        this.select.setAttribute("aria-label", "communicator");
        data.rolls.forEach((source, at) => {
          const option = make("option", "", source.nranks === null ? source.name
            : `${source.name} (${source.nranks})`);
          option.value = String(at);
          this.select.append(option);
        });
        this.select.addEventListener("change", () => {
          this.choose(Number(this.select.value));
          this.noteLink();
        });
        tools.append(this.select);
      }
      this.chips = make("span", "tools chips");
      this.search = make("input");
      this.search.type = "search";
      this.search.placeholder = "rank, host, call, line";
      this.search.setAttribute("aria-label", "rows with this rank, host, call or line");
      this.search.addEventListener("input", () => {
        this.words = this.search.value.trim().toLowerCase();
        this.sift();
      });
      const smaller = this.button("\u2212", "smaller cells", () => this.zoom(1 / 1.5));
      const larger = this.button("+", "larger cells", () => this.zoom(1.5));
      tools.append(this.chips, make("span", "push"), this.search, smaller, larger);

      this.overview = make("canvas", "overview");
      this.overview.setAttribute("aria-hidden", "true");
      this.overview.addEventListener("click", (event) => {
        const share = event.offsetX / this.overview.clientWidth;
        this.scroller.scrollLeft = share * this.now.columns * this.cellWidth -
          this.paneWidth() / 2;
      });
      this.scroller = make("div", "scroller");
      this.scroller.tabIndex = 0;
      this.scroller.setAttribute("role", "application");
      this.scroller.setAttribute("aria-label",
        "roll: a row for each rank or ranks that are alike, a column for each call");
      this.canvas = make("canvas");
      this.spacer = make("div", "spacer");
      this.scroller.append(this.canvas, this.spacer);
      this.details = make("div", "details");
      this.details.setAttribute("aria-live", "polite");
      const panes = make("div", "panes");
      const left = make("div", "left");
      left.append(this.scroller);
      panes.append(left, this.details);
      const keys = make("p", "keys quiet");
      for (const [key, what] of [["\u2190 \u2191 \u2193 \u2192", "move"], ["+ \u2212", "zoom"],
        ["c", "culprit"], ["d", "next difference"], ["/", "search"], ["1 \u2026 9", "tabs"]]) {
        keys.append(make("kbd", "", key), ` ${what}   `);
      }
      // The table of ranks, which is there without scripts, belongs below the roll.
      left.append(keys, ...[this.place.nextElementSibling].filter(Boolean));
      this.hosts = new Hosts(this);
      this.place.append(tools, this.hosts.place, this.overview, panes);

      this.scroller.addEventListener("scroll", () => this.redrawSoon());
      this.canvas.addEventListener("click", (event) => this.click(event));
      this.scroller.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.layout()).observe(this.place);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        this.colours = null;
        this.layout();
      });
    }

    button(text, label, action) {
      const button = make("button", "", text);
      button.type = "button";
      button.title = label;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", action);
      return button;
    }

    // Shows another communicator, at its first difference.
    choose(at) {
      this.at = clamp(at, 0, data.rolls.length - 1);
      this.now = unfold(data.rolls[this.at]);
      if (this.select) this.select.value = String(this.at);
      this.filter = -1;
      this.focusColumn = this.now.marked >= 0 ? this.now.marked : this.now.columns - 1;
      this.summary = null;
      this.showChips();
      this.hosts.count();
      this.visible = [...Array(this.now.rows).keys()];
      const culprit = this.now.source.rows.culprit.indexOf(1);
      this.chosen = { row: Math.max(culprit, 0), column: this.focusColumn };
      this.sift();
      this.reveal(true);
    }

    // What a cell shows: its state, or that its call is another one.
    shows(row, column) {
      const cell = row * this.now.columns + column;
      return this.now.unlike.has(cell) ? DIFFERS : this.now.states[cell];
    }

    callAt(row, column) {
      const cell = row * this.now.columns + column;
      const other = this.now.calls.get(cell);
      if (other !== undefined) return this.now.source.calls[other];
      const name = names[this.now.states[cell]];
      if (name === "absent" || name === "lost" || name === "no_file") return null;
      const usual = this.now.source.usual[column];
      return usual < 0 ? null : this.now.source.calls[usual];
    }

    // The line of the script of a row: that of the call at the difference, else of its last one.
    lineOf(row) {
      for (let column = this.chosen.column; column >= 0; --column) {
        const call = this.callAt(row, column);
        if (call) return call[1];
      }
      return "";
    }

    labelOf(row) {
      const rows = this.now.source.rows;
      const list = rows.ranks[row];
      return rows.count[row] === 1 ? list : `${rows.count[row].toLocaleString("en")}: ${list}`;
    }

    processOf(row) {
      const process = this.now.source.rows.process[row];
      if (process < 0) return null;
      return { host: data.ranks.hosts[data.ranks.host[process]],
        liveness: data.ranks.livenesses[data.ranks.liveness[process]],
        pid: data.ranks.pid[process] };
    }

    // ---- Filters

    showChips() {
      this.chips.replaceChildren();
      const counts = new Map();
      let culprits = 0;
      for (let row = 0; row < this.now.rows; ++row) {
        const count = this.now.source.rows.count[row];
        if (this.now.source.rows.culprit[row]) culprits += count;
        const state = this.shows(row, this.focusColumn);
        counts.set(state, (counts.get(state) || 0) + count);
      }
      if (culprits > 0) this.chips.append(this.chip(-2, "culprit", "\u25b6", "culprit", culprits));
      for (const [state, count] of [...counts].sort((a, b) => a[1] - b[1])) {
        this.chips.append(this.chip(state, names[state], glyphs[state], words[state], count));
      }
    }

    chip(filter, name, glyph, text, count) {
      const chip = make("button");
      chip.type = "button";
      chip.dataset.filter = name;
      chip.setAttribute("aria-pressed", "false");
      chip.append(make("span", `swatch ${name}`, glyph),
        `${text}: ${count.toLocaleString("en")}`);
      chip.addEventListener("click", () => {
        this.filter = this.filter === filter ? -1 : filter;
        for (const other of this.chips.children) {
          other.setAttribute("aria-pressed", String(other === chip && this.filter !== -1));
        }
        this.sift();
      });
      return chip;
    }

    // The rows that the filter and the search leave.
    sift() {
      this.visible = [];
      for (let row = 0; row < this.now.rows; ++row) {
        if (this.passes(row)) this.visible.push(row);
      }
      if (!this.visible.includes(this.chosen.row) && this.visible.length > 0) {
        this.chosen.row = this.visible[0];
      }
      this.layout();
      this.showDetails();
    }

    passes(row) {
      const rows = this.now.source.rows;
      if (this.filter === -2 && !rows.culprit[row]) return false;
      if (this.filter >= 0 && this.shows(row, this.focusColumn) !== this.filter) return false;
      if (this.words === "") return true;
      if (/^\d+$/.test(this.words)) return holds(rows.ranks[row], Number(this.words));
      const process = this.processOf(row);
      const call = this.callAt(row, this.focusColumn);
      return [process ? process.host : "", call ? call[0] : "", this.lineOf(row), rows.says[row]]
        .some((text) => text.toLowerCase().includes(this.words));
    }

    // ---- Layout

    // Widths of the columns that stay: labels left, lines of the script right where there is room.
    labelWidth() { return this.width < 560 ? 74 : 132; }
    lineWidth() { return this.width < 700 ? 0 : clamp(this.width * 0.3, 180, 360); }
    headHeight() { return this.cellWidth >= 12 ? 118 : 22; }
    paneWidth() { return Math.max(this.width - this.labelWidth() - this.lineWidth(), 40); }
    paneHeight() { return Math.max(this.height - this.headHeight(), 20); }

    layout() {
      const width = this.place.clientWidth;
      if (width === 0) return;  // its tab is not open
      const rows = Math.max(this.visible.length, 1);
      const content = this.headHeight() + rows * this.cellHeight;
      const most = Math.max(Math.min(innerHeight * 0.62, 620), 240);
      this.scroller.style.height = `${Math.min(content + 18, most)}px`;
      this.width = this.scroller.clientWidth;
      this.height = this.scroller.clientHeight;
      const all = this.labelWidth() + this.now.columns * this.cellWidth + this.lineWidth();
      this.spacer.style.width = `${all}px`;
      this.spacer.style.height = `${content}px`;
      const ratio = devicePixelRatio || 1;
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      this.canvas.style.width = `${this.width}px`;
      this.canvas.style.height = `${this.height}px`;
      this.ratio = ratio;
      this.hosts.draw();
      this.draw();
    }

    zoom(factor) {
      const middle = (this.scroller.scrollLeft + this.paneWidth() / 2) / this.cellWidth;
      this.cellWidth = clamp(this.cellWidth * factor, 1, 45);
      this.cellHeight = clamp(Math.round(this.cellWidth * 1.1), 6, 22);
      this.layout();
      this.scroller.scrollLeft = middle * this.cellWidth - this.paneWidth() / 2;
      this.draw();
    }

    // Scrolls so that the chosen cell is seen; in the middle where it was not.
    reveal(anyhow) {
      if (!this.width) return;
      const x = this.chosen.column * this.cellWidth;
      const left = this.scroller.scrollLeft;
      if (anyhow || x < left || x + this.cellWidth > left + this.paneWidth()) {
        this.scroller.scrollLeft = x - this.paneWidth() * 0.7;
      }
      const y = this.visible.indexOf(this.chosen.row) * this.cellHeight;
      const top = this.scroller.scrollTop;
      if (anyhow || y < top || y + this.cellHeight > top + this.paneHeight()) {
        this.scroller.scrollTop = y - this.paneHeight() / 2;
      }
      this.redrawSoon();
    }

    redrawSoon() {
      if (this.isDue) return;
      this.isDue = true;
      requestAnimationFrame(() => {
        this.isDue = false;
        this.draw();
      });
    }

    // ---- Drawing

    palette() {
      if (this.colours) return this.colours;
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      this.colours = { cells: names.map((name) => colour(`cell-${name}`)) };
      for (const name of ["paper", "sheet", "ink", "quiet", "edge", "culprit", "chosen", "row",
        "cell-ink", "cell-ink-strong"]) {
        this.colours[name] = colour(name);
      }
      return this.colours;
    }

    draw() {
      if (!this.width) return;
      const began = performance.now();
      const context = this.canvas.getContext("2d");
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      const colours = this.palette();
      context.fillStyle = colours.paper;
      context.fillRect(0, 0, this.width, this.height);
      const left = this.scroller.scrollLeft;
      const top = this.scroller.scrollTop;
      const first = Math.floor(left / this.cellWidth);
      const last = Math.min(Math.ceil((left + this.paneWidth()) / this.cellWidth),
        this.now.columns);
      const firstRow = Math.floor(top / this.cellHeight);
      const lastRow = Math.min(Math.ceil((top + this.paneHeight()) / this.cellHeight),
        this.visible.length);
      context.save();
      context.beginPath();
      context.rect(this.labelWidth(), this.headHeight(), this.paneWidth(), this.paneHeight());
      context.clip();
      for (let at = firstRow; at < lastRow; ++at) {
        this.drawCells(context, this.visible[at], at * this.cellHeight - top + this.headHeight(),
          first, last, left);
      }
      this.drawFrames(context, left, top, firstRow, lastRow);
      context.restore();
      this.drawHead(context, first, last, left);
      this.drawSides(context, firstRow, lastRow, top);
      if (this.visible.length === 0) {
        context.fillStyle = colours.quiet;
        context.fillText("no row", this.labelWidth() + 8, this.headHeight() + 16);
      }
      this.drawOverview(left);
      document.documentElement.dataset.drawMs = String(Math.round(performance.now() - began));
    }

    drawCells(context, row, y, first, last, left) {
      const colours = this.palette();
      const width = this.cellWidth;
      const gap = width >= 6 ? 1 : 0;
      const hasGlyphs = width >= 10;
      context.font = `${Math.min(Math.round(width * 0.62), 13)}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      for (let column = first; column < last; ++column) {
        const state = this.shows(row, column);
        const name = names[state];
        const x = column * width - left + this.labelWidth();
        // Cells that touch each other are one rectangle for as long as they are alike.
        if (gap === 0) while (column + 1 < last && this.shows(row, column + 1) === state) ++column;
        const span = Math.max((column + 1) * width - left + this.labelWidth() - x - gap, 1);
        context.fillStyle = colours.cells[state];
        context.fillRect(x, y + 1, span, this.cellHeight - 2);
        if (name === "absent") {
          context.fillStyle = colours.culprit;
          context.fillRect(x, y + this.cellHeight - 3, span, 2);
        }
        if (!hasGlyphs || glyphs[state] === "") continue;
        const isStrong = name === "differs" || name === "failed";
        context.fillStyle = isStrong ? colours["cell-ink-strong"]
          : name === "absent" ? colours.culprit : colours["cell-ink"];
        context.fillText(glyphs[state], x + (width - gap) / 2, y + this.cellHeight / 2 + 0.5);
      }
    }

    // The difference, the culprits there, and what is chosen.
    drawFrames(context, left, top, firstRow, lastRow) {
      const colours = this.palette();
      const width = Math.max(this.cellWidth, 3);
      const xOf = (column) => column * this.cellWidth - left + this.labelWidth();
      const yOf = (at) => at * this.cellHeight - top + this.headHeight();
      if (this.now.marked >= 0) {
        context.strokeStyle = colours.culprit;
        context.setLineDash([3, 3]);
        context.lineWidth = 1;
        context.strokeRect(xOf(this.now.marked) - 0.5, -5, width, this.height + 10);
        context.setLineDash([]);
        context.lineWidth = 2.5;
        for (let at = firstRow; at < lastRow; ++at) {
          if (!this.now.source.rows.culprit[this.visible[at]]) continue;
          context.strokeRect(xOf(this.now.marked) - 0.5, yOf(at), width, this.cellHeight);
        }
      }
      const chosenAt = this.visible.indexOf(this.chosen.row);
      if (chosenAt < 0) return;
      context.strokeStyle = colours.chosen;
      context.lineWidth = 1.5;
      context.strokeRect(xOf(this.chosen.column) + 1.5, yOf(chosenAt) + 2.5, width - 4,
        this.cellHeight - 5);
    }

    // Positions, and what most ranks called there.
    drawHead(context, first, last, left) {
      const colours = this.palette();
      const height = this.headHeight();
      context.fillStyle = colours.paper;
      context.fillRect(0, 0, this.width, height);
      context.save();
      context.beginPath();
      context.rect(this.labelWidth(), 0, this.paneWidth(), height);
      context.clip();
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      const every = this.cellWidth >= 40 ? 1 : this.cellWidth >= 12 ? 5
        : Math.pow(10, Math.ceil(Math.log10(60 / this.cellWidth)));
      for (let column = first; column < last; ++column) {
        const x = column * this.cellWidth - left + this.labelWidth() + this.cellWidth / 2;
        const isMarked = column === this.now.marked;
        const isNumbered = this.now.seqs[column] % every === 0;
        const nearMark = this.now.marked >= 0 && !isMarked &&
          Math.abs(column - this.now.marked) * this.cellWidth < 34;
        context.fillStyle = isMarked ? colours.culprit : colours.quiet;
        context.textAlign = "center";
        if (isMarked || (isNumbered && !nearMark)) {
          context.fillText(String(this.now.seqs[column]), x, height - 9);
        }
        if (height < 50) continue;
        const usual = this.now.source.usual[column];
        if (usual < 0) continue;
        context.save();
        context.translate(x, height - 20);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        context.fillText(wordsThatFit(context, this.now.source.calls[usual][0], height - 26), 0, 0.5);
        context.restore();
      }
      context.restore();
      context.fillStyle = colours.quiet;
      context.textAlign = "left";
      context.fillText("rank", 6, height - 9);
      if (this.lineWidth() > 0) {
        context.fillText(this.now.hasLines ? "line of the script" : "state", this.width - this.lineWidth() + 8, height - 9);
      }
      context.fillStyle = colours.edge;
      context.fillRect(0, height - 1, this.width, 1);
    }

    drawSides(context, firstRow, lastRow, top) {
      const colours = this.palette();
      const lineLeft = this.width - this.lineWidth();
      context.save();
      context.beginPath();
      context.rect(0, this.headHeight(), this.width, this.paneHeight());
      context.clip();
      context.fillStyle = colours.paper;
      context.fillRect(0, this.headHeight(), this.labelWidth(), this.height);
      if (this.lineWidth() > 0) {
        context.fillRect(lineLeft, this.headHeight(), this.lineWidth(), this.height);
      }
      context.textBaseline = "middle";
      context.textAlign = "left";
      const isSmall = this.cellHeight < 12;
      for (let at = firstRow; at < lastRow && !isSmall; ++at) {
        const row = this.visible[at];
        const y = at * this.cellHeight - top + this.headHeight();
        const isCulprit = this.now.source.rows.culprit[row] === 1;
        if (row === this.chosen.row) {
          context.fillStyle = colours.row;
          context.fillRect(0, y, this.labelWidth() - 1, this.cellHeight);
          if (this.lineWidth() > 0) {
            context.fillRect(lineLeft + 1, y, this.lineWidth(), this.cellHeight);
          }
        }
        context.font = `${isCulprit ? "600 " : ""}12px system-ui, sans-serif`;
        context.fillStyle = isCulprit ? colours.culprit : colours.ink;
        const mark = isCulprit ? "\u25b6 " : "";
        fit(context, mark + this.labelOf(row), 6, y + this.cellHeight / 2, this.labelWidth() - 12);
        if (this.lineWidth() === 0) continue;
        const line = this.lineOf(row);
        fit(context, line === "" ? this.now.source.rows.says[row] : line, lineLeft + 8,
          y + this.cellHeight / 2, this.lineWidth() - 12);
      }
      context.restore();
      context.fillStyle = colours.edge;
      context.fillRect(this.labelWidth() - 1, 0, 1, this.height);
      if (this.lineWidth() > 0) context.fillRect(lineLeft, 0, 1, this.height);
    }

    // All columns in one strip: of each pixel what stands out most.
    drawOverview(left) {
      const canvas = this.overview;
      const width = Math.max(canvas.clientWidth, 1);
      const height = 16;
      if (!this.summary) {
        this.summary = new Uint8Array(this.now.columns);
        for (let column = 0; column < this.now.columns; ++column) {
          let worst = 0;
          for (let row = 0; row < this.now.rows; ++row) {
            const state = this.shows(row, column);
            const weight = importance[names[state]] || 0;
            if (row === 0 || weight > worst) {
              worst = weight;
              this.summary[column] = state;
            }
          }
        }
      }
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const colours = this.palette();
      const scale = width / this.now.columns;
      for (let x = 0; x < width; ++x) {
        const from = Math.floor(x / scale);
        const to = Math.max(Math.ceil((x + 1) / scale), from + 1);
        let worst = -1;
        let state = 0;
        for (let column = from; column < Math.min(to, this.now.columns); ++column) {
          const weight = importance[names[this.summary[column]]] || 0;
          if (weight > worst) {
            worst = weight;
            state = this.summary[column];
          }
        }
        context.fillStyle = names[state] === "absent" ? colours.culprit : colours.cells[state];
        context.fillRect(x, 3, 1, height - 6);
      }
      const x = left / this.cellWidth * scale;
      const shown = Math.min(this.paneWidth() / this.cellWidth * scale, width - x);
      context.strokeStyle = colours.ink;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, 0.5, Math.max(shown - 1, 2), height - 1);
    }

    // ---- What is chosen

    showDetails() {
      const list = make("dl");
      const say = (term, text) => {
        if (text === "" || text === null || text === undefined) return;
        list.append(make("dt", "", term), make("dd", "", String(text)));
      };
      const { row, column } = this.chosen;
      if (this.visible.length === 0 || column < 0) {
        this.details.replaceChildren();
        return;
      }
      const source = this.now.source;
      const count = source.rows.count[row];
      const process = this.processOf(row);
      const call = this.callAt(row, column);
      const usual = source.usual[column];
      say(count === 1 ? "rank" : `${count.toLocaleString("en")} ranks that are alike`,
        source.rows.ranks[row]);
      if (process && count === 1) {
        const pid = process.pid === 0 ? [] : [`pid ${process.pid}`];
        say("host", [process.host, ...pid].filter((text) => text !== "").join(", "));
        if (process.liveness !== "unknown") say("process", process.liveness);
      } else if (process) {
        say("hosts", hostsOf(source.rows.ranks[row]));
      }
      say("call", `seq ${this.now.seqs[column]} of ${source.name}${call ? ": " + call[0] : ""}`);
      say("state", words[this.now.states[row * this.now.columns + column]]);
      if (call) say("line of the script", call[1]);
      if (usual >= 0 && this.now.unlike.has(row * this.now.columns + column)) {
        say("most ranks called", source.calls[usual][0]);
        say("from", source.calls[usual][1]);
      }
      if (usual >= 0 && !call) say("most ranks called", source.calls[usual][0]);
      if (column === this.now.marked) say("this rank", source.rows.says[row]);
      this.details.replaceChildren(list);
    }

    link() {
      const source = this.now.source;
      const ranks = source.rows.ranks[this.chosen.row];
      return { tab: "roll", comm: source.key,
        rank: ranks === undefined ? undefined : ranks.split(/[-,]/)[0],
        seq: this.now.seqs[this.chosen.column] };
    }

    noteLink() { writeLink(this.link()); }

    pick(row, column) {
      this.chosen = { row, column };
      this.showDetails();
      this.reveal(false);
      this.noteLink();
    }

    // Goes to what a link names, as far as it is there.
    follow(link) {
      if (link.comm !== undefined) {
        const at = data.rolls.findIndex((source) => source.key === link.comm);
        if (at >= 0 && at !== this.at) this.choose(at);
      }
      let { row, column } = this.chosen;
      if (link.rank !== undefined) {
        const found = this.now.source.rows.ranks.findIndex((list) => holds(list, Number(link.rank)));
        if (found >= 0) row = found;
      }
      if (link.seq !== undefined) {
        const found = this.now.seqs.indexOf(Number(link.seq));
        if (found >= 0) column = found;
      }
      this.chosen = { row, column };
      this.showDetails();
      this.reveal(true);
    }

    click(event) {
      const x = event.offsetX - this.labelWidth();
      const y = event.offsetY - this.headHeight();
      if (y < 0 || event.offsetX > this.width - this.lineWidth()) return;
      const at = Math.floor((y + this.scroller.scrollTop) / this.cellHeight);
      if (at < 0 || at >= this.visible.length) return;
      const column = x < 0 ? this.chosen.column
        : Math.floor((x + this.scroller.scrollLeft) / this.cellWidth);
      if (column >= this.now.columns) return;
      this.pick(this.visible[at], column);
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const at = Math.max(this.visible.indexOf(this.chosen.row), 0);
      const page = Math.max(Math.floor(this.paneHeight() / this.cellHeight) - 1, 1);
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
        PageUp: [-page, 0], PageDown: [page, 0], Home: [0, -this.now.columns],
        End: [0, this.now.columns] };
      const move = moves[event.key];
      if (!move || this.visible.length === 0) return;
      event.preventDefault();
      this.pick(this.visible[clamp(at + move[0], 0, this.visible.length - 1)],
        clamp(this.chosen.column + move[1], 0, this.now.columns - 1));
    }

    goToCulprit() {
      const row = this.visible.find((one) => this.now.source.rows.culprit[one] === 1);
      if (row !== undefined) this.pick(row, this.focusColumn);
    }

    // The next cell of the columns behind the chosen one, from the first again, that stands out.
    nextDifference() {
      const stands = (row, column) => ["differs", "absent", "failed"].includes(
        names[this.shows(row, column)]);
      for (let step = 1; step <= this.now.columns; ++step) {
        const column = (this.chosen.column + step) % this.now.columns;
        const row = this.visible.find((one) => stands(one, column));
        if (row !== undefined) return this.pick(row, column);
      }
      return undefined;
    }
  }

  // Text that ends in an ellipsis where it does not fit.
  function fit(context, text, x, y, width) {
    if (context.measureText(text).width > width) {
      let low = 0;
      let high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(text.slice(0, middle) + "\u2026").width <= width) low = middle;
        else high = middle - 1;
      }
      text = text.slice(0, low) + "\u2026";
    }
    context.fillText(text, x, y);
  }

  // As many words as there is room for; the first in any case.
  function wordsThatFit(context, text, width) {
    const all = text.split(" ");
    let count = all.length;
    while (count > 1 && context.measureText(all.slice(0, count).join(" ")).width > width) --count;
    return all.slice(0, count).join(" ");
  }

  // ---- The whole -----------------------------------------------------------------------------

  let roll = null;

  function goTo(link) {
    open(link.tab, false);
    if (roll && openTab === "roll") roll.follow(link);
  }

  function onKey(event) {
    const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (event.key === "Escape" && isTyping) event.target.blur();
    if (isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
    if (/^[1-9]$/.test(event.key) && Number(event.key) <= tabs.length) {
      tabs[Number(event.key) - 1].click();
      return;
    }
    if (!roll || openTab !== "roll") return;
    const actions = { "+": () => roll.zoom(1.5), "=": () => roll.zoom(1.5),
      "-": () => roll.zoom(1 / 1.5), c: () => roll.goToCulprit(), d: () => roll.nextDifference(),
      "/": () => roll.search.focus() };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  setUpTabs();
  if (data.rolls.length > 0) roll = new Roll(document.getElementById("roll-view"));
  goTo(readLink());
  addEventListener("hashchange", () => goTo(readLink()));
  addEventListener("resize", letTablesScroll);
  addEventListener("keydown", onKey);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();

'use strict';
// Tables sort by a click on a head. In pictures the value nearest to the pointer is named, and dragging over a part of a
// panel shows that part alone; a double click or the button shows all of it again. Nothing is fetched, nothing is kept.
(() => {
  const SVG = 'http://www.w3.org/2000/svg';

  /** An element of a picture. */
  function shape(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  /** A number as people read it. */
  function spoken(x) {
    const size = Math.abs(x);
    if (size !== 0 && (size < 1e-3 || size >= 1e9)) return Number(x.toPrecision(5)).toExponential().replace('e+', 'e');
    return Number(x.toPrecision(6)).toLocaleString('en-US', { maximumSignificantDigits: 6, useGrouping: size >= 1e4 });
  }

  // Tables.

  const FACTORS = { K: 1e3, M: 1e6, B: 1e9 };

  /** What a cell is sorted by: the number that it begins with, else its words. */
  function key(cell) {
    if (cell === undefined) return '';
    if (cell.dataset.by !== undefined) return Number(cell.dataset.by);
    const text = cell.textContent.trim();
    const found = /^([-+\u2212]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)(?: ([KMB])\b)?(?=$|\s)/i.exec(text);
    if (!found) return text;
    return Number(found[1].replace(/,/g, '').replace('\u2212', '-')) * (FACTORS[found[2]] || 1);
  }

  /** Numbers before words, a dash after all. */
  function compare(a, b) {
    const rank = (x) => (typeof x === 'number' ? 0 : x === '\u2013' || x === '' ? 2 : 1);
    if (rank(a) !== rank(b)) return { order: rank(a) - rank(b), fixed: true };
    return { order: typeof a === 'number' ? a - b : a.localeCompare(b, 'en', { numeric: true }), fixed: rank(a) === 2 };
  }

  function sort(table, column) {
    const heads = [...table.tHead.rows[0].cells];
    const down = heads[column].getAttribute('aria-sort') === 'ascending';
    heads.forEach((head, i) => {
      if (i === column) head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: key(row.cells[column]) }));
    rows.sort((a, b) => {
      const { order, fixed } = compare(a.key, b.key);
      return down && !fixed ? -order : order;
    });
    body.append(...rows.map((r) => r.row));
  }

  for (const table of document.querySelectorAll('.scroll table')) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.title = 'sort';
      button.append(...head.childNodes);
      button.addEventListener('click', () => sort(table, column));
      head.append(button);
    });
  }

  // Pictures.

  const NEAR = 70; // units of the picture
  const value = document.getElementById('value');

  /** Round values between two, about `count` of them. */
  function ticks(lo, hi, count, log) {
    if (log && hi / lo > 4) {
      const factors = hi / lo > 1e4 ? [1] : [1, 2, 5];
      const found = [];
      for (let power = Math.floor(Math.log10(lo)); power <= Math.ceil(Math.log10(hi)); power++) {
        for (const factor of factors) found.push(Number(`${factor}e${power}`));
      }
      return found.filter((x) => x >= lo && x <= hi);
    }
    const rough = (hi - lo) / count;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * ([1, 2, 5].find((f) => f * unit >= rough) || 10);
    const found = [];
    for (let i = Math.ceil(lo / step); i * step <= hi; i++) found.push(Number((i * step).toPrecision(10)));
    return found;
  }

  class Panel {
    constructor(svg, group, data, name) {
      Object.assign(this, { svg, group, name, series: data.series, spots: data.spots || [], axes: [data.x, data.y] });
      this.field = data.field;
      this.part = data.field;
      const [left, top, right, bottom] = data.field;
      this.ends = [[left, right], [bottom, top]];
    }

    /** Where a value stands along an axis, in the whole picture. */
    at(axis, x) {
      const { range, log } = this.axes[axis];
      const f = log ? Math.log : (v) => v;
      const [from, to] = this.ends[axis];
      return from + ((f(x) - f(range[0])) / (f(range[1]) - f(range[0]))) * (to - from);
    }

    /** The value at a place of the whole picture. */
    from(axis, place) {
      const { range, log } = this.axes[axis];
      const [from, to] = this.ends[axis];
      const share = (place - from) / (to - from);
      return log ? range[0] * (range[1] / range[0]) ** share : range[0] + share * (range[1] - range[0]);
    }

    holds([x, y]) {
      const [left, top, right, bottom] = this.field;
      return x >= left && x <= right && y >= top && y <= bottom;
    }

    /** How places of the whole picture become those of the part that is shown. */
    scales() {
      const [left, top, right, bottom] = this.field;
      const [a, b, c, d] = this.part;
      const sx = (right - left) / (c - a);
      const sy = (bottom - top) / (d - b);
      return { sx, sy, tx: left - a * sx, ty: top - b * sy };
    }

    /** The points of the series by their places. */
    places() {
      this.placed ||= this.series.flatMap((series) =>
        series.points.map(([x, y, lo, hi]) => ({ series, x, y, lo, hi, px: this.at(0, x), py: this.at(1, y) })));
      return this.placed;
    }

    /** What stands nearest to a place; undefined where nothing is near. */
    nearest([x, y]) {
      const { sx, sy, tx, ty } = this.scales();
      let best;
      let least = NEAR ** 2;
      const see = (px, py, found, reach) => {
        const at = [px * sx + tx, py * sy + ty];
        const distance = (at[0] - x) ** 2 + (at[1] - y) ** 2;
        if (distance < least * reach && this.holds(at)) [best, least] = [{ ...found, at }, distance / reach];
      };
      for (const p of this.places()) see(p.px, p.py, p, 1);
      for (const [px, py, head, text] of this.spots) see(px, py, { head, text }, 9);
      return best;
    }

    /** Shows a part of the panel; all of it where nothing is said. */
    show(part) {
      this.part = part || this.field;
      const { sx, sy, tx, ty } = this.scales();
      this.group.classList.toggle('zoomed', Boolean(part));
      for (const field of this.group.querySelectorAll('.field')) {
        field.setAttribute('transform', `matrix(${sx} 0 0 ${sy} ${tx} ${ty})`);
        field.parentNode.setAttribute('clip-path', `url(#${this.clip()})`);
        for (const mark of field.querySelectorAll('.mark')) {
          const [x, y] = mark.dataset.at.split(' ').map(Number);
          mark.setAttribute('transform', `translate(${x} ${y}) scale(${1 / sx} ${1 / sy}) translate(${-x} ${-y})`);
        }
      }
      this.retick();
    }

    /** The name of the shape that the field is cut to. */
    clip() {
      const id = `clip-${this.name}-${this.group.dataset.number}`;
      if (!document.getElementById(id)) {
        const [x, y, right, bottom] = this.field;
        const clip = shape('clipPath', { id });
        clip.append(shape('rect', { x, y, width: right - x, height: bottom - y }));
        this.svg.append(clip);
      }
      return id;
    }

    /** Ticks for the part that is shown. */
    retick() {
      const grid = this.group.querySelector('.grid');
      const words = [...this.group.querySelectorAll('.ticks')];
      this.first ||= [grid, ...words].map((group) => [...group.childNodes]);
      if (this.part === this.field) {
        [grid, ...words].forEach((group, i) => group.replaceChildren(...this.first[i]));
        return;
      }
      const { sx, sy, tx, ty } = this.scales();
      const [left, top, right, bottom] = this.field;
      grid.replaceChildren();
      [0, 1].forEach((axis) => {
        const [a, b, c, d] = this.part;
        const group = words[1 - axis];
        const ends = axis === 0 ? [this.from(0, a), this.from(0, c)] : [this.from(1, d), this.from(1, b)];
        const axes = this.axes[axis];
        const marks = axes.words
          ? axes.words.map((word, i) => [i, word]).filter(([i]) => i >= ends[0] && i <= ends[1])
          : ticks(ends[0], ends[1], axis === 0 ? Math.max(3, (right - left) / 180) : 5, axes.log).map((x) => [x, spoken(x)]);
        const texts = [];
        for (const [x, word] of marks) {
          const place = this.at(axis, x);
          const at = axis === 0 ? place * sx + tx : place * sy + ty;
          const d2 = axis === 0 ? `M${at} ${top}L${at} ${bottom}` : `M${left} ${at}L${right} ${at}`;
          grid.append(shape('path', { d: d2, stroke: '#e8e8e8' }));
          const spot = axis === 0 ? { x: at, y: bottom + 35, 'text-anchor': 'middle' } : { x: left - 13, y: at + 9, 'text-anchor': 'end' };
          texts.push(shape('text', { ...spot, 'font-size': 24, fill: '#222222' }, word));
        }
        group.replaceChildren(...texts);
      });
    }
  }

  /** Names a value beside the pointer. */
  function name(event, panel, found) {
    value.replaceChildren();
    const head = document.createElement('b');
    const add = (text) => value.append(Object.assign(document.createElement('span'), { textContent: text }));
    if (found.series) {
      const dot = shape('svg', { width: 10, height: 10 });
      dot.append(shape('rect', { width: 10, height: 10, rx: 2, fill: found.series.color }));
      if (found.series.name) head.append(dot, found.series.name);
      value.append(head);
      const [x, y] = panel.axes;
      add(`${x.label.replace(/ \(.*/, '')}: ${x.words ? x.words[Math.round(found.x)] : spoken(found.x)}`);
      const spread = found.lo === undefined ? '' : ` (${spoken(found.lo)} to ${spoken(found.hi)})`;
      add(`${y.label.replace(/ \(.*/, '')}: ${spoken(found.y)}${spread}`);
    } else {
      head.textContent = found.head;
      value.append(head);
      add(found.text);
    }
    value.hidden = false;
    const { width, height } = value.getBoundingClientRect();
    const left = event.clientX + 14 + width > document.documentElement.clientWidth ? event.clientX - 14 - width : event.clientX + 14;
    value.style.left = `${Math.max(4, left)}px`;
    value.style.top = `${Math.max(4, event.clientY + 14 + height > window.innerHeight ? event.clientY - 14 - height : event.clientY + 14)}px`;
  }

  function figure(section) {
    const svg = section.querySelector('svg');
    const data = JSON.parse(section.querySelector('script').textContent);
    const groups = svg.querySelectorAll('.panel');
    const panels = data.map((d, i) => new Panel(svg, groups[i], d, section.id));
    const ring = shape('circle', { r: 11, fill: 'none', stroke: '#222222', 'stroke-width': 2.5, 'pointer-events': 'none', visibility: 'hidden' });
    const box = shape('rect', { fill: '#0072b2', 'fill-opacity': 0.12, stroke: '#0072b2', visibility: 'hidden' });
    svg.append(ring, box);
    const whole = Object.assign(document.createElement('button'), { type: 'button', className: 'whole', textContent: 'show all', hidden: true });
    section.querySelector('.plot').prepend(whole);

    const place = (event) => {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [p.x, p.y];
    };
    const hide = () => {
      value.hidden = true;
      ring.setAttribute('visibility', 'hidden');
    };
    const reset = (which) => {
      which.filter((p) => p.group && p.part !== p.field).forEach((p) => p.show());
      whole.hidden = panels.every((p) => p.part === p.field);
      hide();
    };
    let drag;

    svg.addEventListener('pointermove', (event) => {
      const at = place(event);
      if (drag) {
        const [left, top, right, bottom] = drag.panel.field;
        drag.to = [Math.min(Math.max(at[0], left), right), Math.min(Math.max(at[1], top), bottom)];
        const [x, y] = [0, 1].map((i) => Math.min(drag.from[i], drag.to[i]));
        const [width, height] = [0, 1].map((i) => Math.abs(drag.from[i] - drag.to[i]));
        for (const [k, v] of Object.entries({ x, y, width, height, visibility: 'visible' })) box.setAttribute(k, v);
        return;
      }
      const panel = panels.find((p) => p.holds(at));
      const found = panel && panel.nearest(at);
      if (!found) return hide();
      ring.setAttribute('cx', found.at[0]);
      ring.setAttribute('cy', found.at[1]);
      ring.setAttribute('visibility', found.series ? 'visible' : 'hidden');
      name(event, panel, found);
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('pointerdown', (event) => {
      const at = place(event);
      const panel = panels.find((p) => p.group && p.series.length > 0 && p.holds(at));
      if (!panel || event.button !== 0 || event.pointerType === 'touch') return;
      drag = { panel, from: at, to: at };
      svg.setPointerCapture(event.pointerId);
      hide();
    });
    svg.addEventListener('pointerup', () => {
      if (!drag) return;
      const { panel, from, to } = drag;
      drag = undefined;
      box.setAttribute('visibility', 'hidden');
      if (Math.abs(from[0] - to[0]) < 12 || Math.abs(from[1] - to[1]) < 12) return;
      const { sx, sy, tx, ty } = panel.scales();
      const x = [from[0], to[0]].sort((a, b) => a - b).map((v) => (v - tx) / sx);
      const y = [from[1], to[1]].sort((a, b) => a - b).map((v) => (v - ty) / sy);
      panel.show([x[0], y[0], x[1], y[1]]);
      whole.hidden = false;
    });
    svg.addEventListener('pointercancel', () => {
      drag = undefined;
      box.setAttribute('visibility', 'hidden');
    });
    svg.addEventListener('dblclick', (event) => reset(panels.filter((p) => p.holds(place(event)))));
    whole.addEventListener('click', () => reset(panels));
  }

  document.querySelectorAll('.figure').forEach(figure);
})();

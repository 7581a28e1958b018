import { formatNumber } from '../../numbers';
import type { AttentionHead, AttentionScripts, Number as Weight } from '../../schema';
import type { Words } from '../../words';
import { button, draw, make } from '../make';
import { columnLabels, rowLabels, Sides } from './axes';
import { coloursOf, paint, Pixels, rgb, shade } from './weights';

/** One head as drawn: each pixel stands for `pool` entries, and `rows` by `cols` pixels are not padding. */
export interface Head {
  facts: AttentionHead;
  pixels: Pixels;
  pool: number[];
  rows: number;
  cols: number;
  path: number[];
}

/** The sound that the columns stand for, and its picture, which is as wide as they are. */
export interface Sound {
  audio: HTMLAudioElement;
  spectrum: string;
}

type Scale = 'head' | 'row' | 'all' | 'one' | 'root';

const [WIDTH, HEIGHT, CELL] = [760, 560, 36];
const TOP = 6;
const SPECTRUM = 64;
const STRIP = 512;
/** The table has so many rows and columns. */
const ROWS = 64;

/** The weights of one head, large: point at a weight to read it, click a row to colour the columns by it. */
export class Matrix {
  constructor(
    private _scripts: AttentionScripts,
    private _words: Words,
    private _sound: Sound | null = null
  ) {
    this._top = TOP + (_sound ? SPECTRUM + 4 : 0);
    _sound?.audio.addEventListener('play', this._follow);
    _sound?.audio.addEventListener('seeked', this._follow);
    this._colours = coloursOf(_scripts.colours);
    this._sides = new Sides(_scripts);
    this._title = make('div', { class: 'rfnb-Facts' });
    this._said = make('div', { class: 'rfnb-Facts', role: 'status' });
    this._strip = make('div', { class: 'rfnb-Strip' });
    this._place = make('div', { class: 'rfnb-Matrix-place' });
    this._pathButton = button(_words.__('Path'), _words.__('Show or hide the best monotonic path'), () => {
      this._hasPath = !this._hasPath;
      this._draw();
    });
    this._legend = make('span', { class: 'rfnb-Legend' });
    const tools = make('div', { class: 'rfnb-Tools' }, this._title, this._scales(), this._legend, this._pathButton);
    const look = { class: 'rfnb-Matrix rfnb-Look', 'data-lm-suppress-shortcuts': 'true' };
    this._table = make('details', { class: 'rfnb-Tree-table' }, make('summary', {}, _words.__('as a table')));
    this._table.addEventListener('toggle', () => this._fillTable());
    this.element = make('div', look, tools, this._place, this._said, this._strip, this._table);
  }

  readonly element: HTMLElement;

  dispose(): void {
    this._sound?.audio.removeEventListener('play', this._follow);
    this._sound?.audio.removeEventListener('seeked', this._follow);
  }

  show(head: Head): void {
    this._head = head;
    this._row = clamp(this._row, head.rows);
    this._col = clamp(this._col, head.cols);
    this._draw();
    this._tell(this._locked === null ? null : this._row);
    this._fillTable();
  }

  /** The weights as they are read aloud: a row of the table for each row of the picture. */
  private _fillTable(): void {
    if (!this._table.open || this._head === null) {
      return;
    }
    const { rows, cols, pool } = this._head;
    const labels = this._sides.labels(pool, Math.min(rows, ROWS), Math.min(cols, ROWS));
    const heads = labels.cols.map(label => make('th', { scope: 'col' }, label));
    const lines = labels.rows.map((label, row) => {
      const weights = labels.cols.map((_, col) => make('td', {}, formatNumber(this._weight(row, col))));
      return make('tr', {}, make('th', { scope: 'row' }, label), ...weights);
    });
    const head = make('thead', {}, make('tr', {}, make('td', {}), ...heads));
    const scrolled = make(
      'div',
      { class: 'rfnb-Tree-rows', tabindex: 0 },
      make('table', {}, head, make('tbody', {}, ...lines))
    );
    const isCut = rows > ROWS || cols > ROWS;
    const note = isCut ? make('div', { class: 'rfnb-Facts' }, this._words.__('the first %1 of each', ROWS)) : null;
    this._table.replaceChildren(this._table.firstElementChild!, ...[scrolled, note].filter(part => part !== null));
  }

  private _scales(): HTMLElement {
    const words = this._words;
    const { unit, heads } = this._scripts;
    const every =
      unit === 'hypothesis'
        ? words.__('The strongest colour is the maximum of all hypotheses')
        : words.__('The strongest colour is the maximum of all heads');
    const choices: [Scale, string, string][] = [
      ['row', words.__('row'), words.__('The strongest colour is the maximum of each row')],
      ['head', words.__('picture'), words.__('The strongest colour is the maximum of the picture')],
      ['one', '0–1', words.__('The strongest colour is 1')],
      ['root', '√', words.__('Colours stand for the square root, so that small weights show')]
    ];
    if (heads.length > 1) {
      choices.splice(2, 0, ['all', words.__('all'), every]);
    }
    const buttons = choices.map(([scale, name, title]) => {
      const choice = button(name, title, () => {
        this._scale = scale;
        buttons.forEach(other => other.setAttribute('aria-pressed', String(other === choice)));
        this._draw();
      });
      choice.setAttribute('aria-pressed', String(scale === this._scale));
      return choice;
    });
    const label = words.__('scale');
    return make('span', { class: 'rfnb-Scales', role: 'group', 'aria-label': label }, label, ' ', ...buttons);
  }

  private _draw(): void {
    const { pixels, rows, cols, pool, path, facts } = this._head!;
    const labels = this._sides.labels(pool, rows, cols);
    const cell = this._cellSize(labels.cols);
    const [width, height] = [pixels.width * cell.w, pixels.height * cell.h];
    const down = rowLabels(labels.rows, cell.h);
    const across = columnLabels(labels.cols, cell.w);
    this._cell = { ...cell, left: down.room };
    const points = path.map((col, row) => [(col + 0.5) * cell.w, (row + 0.5) * cell.h].join());
    this._rowBand = draw('rect', { class: 'rfnb-Matrix-band', width, height: cell.h });
    this._stepBand = draw('rect', { class: 'rfnb-Matrix-step', x: -2, width: width + 4, height: cell.h });
    this._colBand = draw('rect', { class: 'rfnb-Matrix-band', width: cell.w, height });
    const picture = draw('image', { width, height, preserveAspectRatio: 'none', href: this._painted() });
    const plot = draw(
      'g',
      { transform: `translate(${down.room},${this._top})` },
      ...this._spectrum(cols * cell.w),
      picture,
      hatching(cols * cell.w, 0, (pixels.width - cols) * cell.w, height),
      hatching(0, rows * cell.h, cols * cell.w, (pixels.height - rows) * cell.h),
      draw('rect', { class: 'rfnb-Matrix-frame', width, height }),
      this._hasPath && path.length ? draw('polyline', { class: 'rfnb-Matrix-path', points: points.join(' ') }) : null,
      this._stepBand,
      this._rowBand,
      this._colBand,
      draw('g', { transform: 'translate(-5,0)' }, ...down.drawn),
      draw('g', { transform: `translate(0,${height})` }, ...across.drawn)
    );
    const { row_name, col_name } = this._scripts;
    const size = { width: down.room + width + 24, height: height + across.room + this._top + 4 };
    const name = this._words.__('Attention weights: rows are %1, columns are %2', row_name, col_name);
    const hadFocus = this._svg !== null && this._svg === this._svg.ownerDocument.activeElement;
    this._svg = draw(
      'svg',
      { ...size, class: 'rfnb-Matrix-plot', tabindex: 0, role: 'application', 'aria-label': name },
      plot
    );
    this._listen(this._svg);
    this._place.replaceChildren(this._svg);
    if (hadFocus) {
      this._svg.focus({ preventScroll: true });
    }
    this._title.replaceChildren(...titleOf(facts, this._scripts, this._words));
    this._pathButton.hidden = path.length === 0;
    this._pathButton.setAttribute('aria-pressed', String(this._hasPath));
    this._drawLegend();
    this._markCell(false);
    this.markStep(this._step);
    this._follow();
  }

  /** The picture of the sound above the columns, and the place that is heard. */
  private _spectrum(width: number): SVGElement[] {
    if (!this._sound) {
      return [];
    }
    const y = -SPECTRUM - 4;
    const href = this._sound.spectrum;
    this._heard = draw('rect', { class: 'rfnb-Matrix-heard', y, width: 2, height: SPECTRUM });
    return [draw('image', { y, width, height: SPECTRUM, preserveAspectRatio: 'none', href }), this._heard];
  }

  /** Marks the place of the sound that is heard, as long as it plays. */
  private _follow = (): void => {
    const audio = this._sound?.audio;
    if (audio && this._head) {
      const share = audio.duration ? audio.currentTime / audio.duration : 0;
      this._heard?.setAttribute('x', String(share * this._head.cols * this._cell.w - 1));
      if (!audio.paused && this.element.isConnected) {
        requestAnimationFrame(this._follow);
      }
    }
  };

  /** Goes to the column in the sound; a sound that plays is left alone, unless it is to play from there. */
  private _seek(isPlaying: boolean): void {
    const audio = this._sound?.audio;
    if (audio?.duration && (isPlaying || audio.paused)) {
      audio.currentTime = (this._col / this._head!.cols) * audio.duration;
      void (isPlaying && audio.play());
    }
  }

  /** Marks the row of a step of a loop; null: no row. */
  markStep(step: number | null): void {
    this._step = step;
    const row = step === null || this._head === null ? NaN : Math.floor(step / this._head.pool[0]);
    const isShown = row >= 0 && row < (this._head?.rows ?? 0);
    this._stepBand?.setAttribute('y', String((isShown ? row : 0) * this._cell.h));
    this._stepBand?.setAttribute('visibility', isShown ? 'visible' : 'hidden');
  }

  private _cellSize(labels: string[]): { w: number; h: number } {
    const { pixels } = this._head!;
    const longest = Math.max(1, ...labels.map(label => Math.min(6, label.length)));
    const room = Math.min(WIDTH, (this.element.parentElement?.clientWidth || WIDTH) - 160);
    const w = Math.max(1, Math.min(room / pixels.width, Math.max(CELL, longest * 6.7 + 8)));
    const h = Math.max(1, Math.min(HEIGHT / pixels.height, CELL));
    const isSquare = pixels.width === pixels.height;
    return isSquare ? { w: Math.min(w, h), h: Math.min(w, h) } : { w, h };
  }

  private _painted(): string {
    const { pixels, facts } = this._head!;
    const { shares, width } = pixels;
    const scaled: { [scale in Scale]: (share: number, i: number) => number } = {
      head: share => share,
      root: share => Math.sqrt(share),
      all: share => (share * weightOf(facts.scale)) / this._most(),
      one: share => share * weightOf(facts.scale),
      row: (share, i) => share / Math.max(this._largest(Math.floor(i / width)), 1e-9)
    };
    return paint(pixels, shares.map(scaled[this._scale]), this._colours);
  }

  /** Draws the bar that shows which colour stands for which weight. */
  private _drawLegend(): void {
    const stops = [0, 0.25, 0.5, 0.75, 1].map(share => `rgb(${rgb(shade(share, this._colours))})`);
    const bar = make('i', {});
    bar.style.background = `linear-gradient(to right, ${stops.join()})`;
    const own = weightOf(this._head!.facts.scale);
    const tops: { [scale in Scale]: string } = {
      row: this._words.__('maximum of the row'),
      head: formatNumber(own),
      all: formatNumber(this._most()),
      one: '1',
      root: `${formatNumber(own)} (√)`
    };
    this._legend.replaceChildren('0 ', bar, ` ${tops[this._scale]}`);
  }

  /** The largest weight of all heads. */
  private _most(): number {
    return Math.max(...this._scripts.heads.map(head => weightOf(head.scale)), 1e-9);
  }

  private _largest(row: number): number {
    const { pixels } = this._head!;
    const line = pixels.shares.subarray(row * pixels.width, (row + 1) * pixels.width);
    return line.reduce((most, share) => Math.max(most, share || 0), 0);
  }

  private _listen(svg: SVGSVGElement): void {
    svg.addEventListener('pointermove', event => {
      const at = this._cellAt(event);
      const row = at?.row ?? this._row;
      if (at && (row !== this._row || at.col !== this._col || !this._isPointing)) {
        [this._row, this._col] = [row, at.col];
        this._markCell(true);
        this._seek(false);
      }
    });
    svg.addEventListener('pointerleave', () => this._markCell(svg === svg.ownerDocument.activeElement));
    svg.addEventListener('focus', () => this._markCell(true));
    svg.addEventListener('blur', () => this._markCell(false));
    svg.addEventListener('click', event => this._onClick(event));
    svg.addEventListener('keydown', event => this._onKey(event));
  }

  private _onClick(event: MouseEvent): void {
    const at = this._cellAt(event);
    if (at) {
      this._seek(true);
    }
    if (at && at.row !== null) {
      this._toggleLock();
    }
  }

  /** The weight under the pointer; without a row: the place in the sound. */
  private _cellAt(event: MouseEvent): { row: number | null; col: number } | null {
    const { rows, cols } = this._head!;
    const box = this._svg!.getBoundingClientRect();
    const col = Math.floor((event.clientX - box.left - this._cell.left) / this._cell.w);
    const row = Math.floor((event.clientY - box.top - this._top) / this._cell.h);
    const isSound = this._sound !== null && event.clientY - box.top < this._top;
    return (isSound || (row >= 0 && row < rows)) && col >= 0 && col < cols ? { row: isSound ? null : row, col } : null;
  }

  private _onKey(event: KeyboardEvent): void {
    const { rows, cols } = this._head!;
    const moves: { [key: string]: [number, number] } = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -cols],
      End: [0, cols]
    };
    const move = moves[event.key];
    if (move) {
      [this._row, this._col] = [clamp(this._row + move[0], rows), clamp(this._col + move[1], cols)];
      this._markCell(true);
      this._seek(false);
    } else if (event.key === 'Enter' || event.key === ' ') {
      this._seek(true);
      this._toggleLock();
    } else if (event.key === 'Escape') {
      this._sound?.audio.pause();
      this._locked = null;
      this._markCell(true);
    } else {
      return;
    }
    event.preventDefault();
  }

  private _toggleLock(): void {
    this._locked = this._locked === this._row ? null : this._row;
    this._markCell(true);
  }

  /** Highlights the weight that is pointed at or chosen by keyboard. */
  private _markCell(isPointing: boolean): void {
    this._isPointing = isPointing;
    const row = this._locked ?? (isPointing ? this._row : null);
    this._rowBand?.setAttribute('y', String((row ?? 0) * this._cell.h));
    this._rowBand?.setAttribute('visibility', row === null ? 'hidden' : 'visible');
    this._rowBand?.setAttribute('data-locked', String(this._locked !== null));
    this._colBand?.setAttribute('x', String(this._col * this._cell.w));
    this._colBand?.setAttribute('visibility', isPointing ? 'visible' : 'hidden');
    this._tell(row);
  }

  private _tell(row: number | null): void {
    const words = this._words;
    const { rows, cols, pool } = this._head!;
    if (row === null) {
      const hint = words.__('Point at a weight or move with the arrow keys. Click or press Enter to pin the row.');
      const sound = this._sound ? ` ${words.__('The sound plays from there.')}` : '';
      this._said.replaceChildren(hint + sound);
      this._strip.replaceChildren();
      return;
    }
    const labels = this._sides.labels(pool, rows, cols);
    const [from, to] = [make('b', {}, labels.rows[row]), make('b', {}, labels.cols[this._col])];
    const isBlock = pool[0] * pool[1] > 1;
    const read = formatNumber(this._weight(row, this._col)); // from a colour
    const weight = isBlock ? words.__('at most ≈ %1', read) : `≈ ${read}`;
    const lock = this._locked === null ? '' : words.__('(row pinned; press Escape to unpin)');
    const { row_name, col_name } = this._scripts;
    this._said.replaceChildren(`${row_name} `, from, ` → ${col_name} `, to, `: ${weight} ${lock}`);
    this._tellStrip(row, labels.cols);
  }

  /** Shows the column labels as a text, each in the colour of its weight in this row. */
  private _tellStrip(row: number, labels: string[]): void {
    if (this._scripts.cols === null || labels.length > STRIP) {
      return;
    }
    const { pixels } = this._head!;
    const largest = Math.max(this._largest(row), 1e-9);
    const tokens = labels.map((label, col) => {
      const share = pixels.shares[row * pixels.width + col] / largest || 0;
      const [red, green, blue] = rgb(shade(share, this._colours));
      const token = make('span', { title: formatNumber(this._weight(row, col)) }, label);
      token.style.backgroundColor = `rgb(${red},${green},${blue})`;
      token.style.color = red + green + blue > 380 ? '#111' : '#fff';
      token.toggleAttribute('data-at', col === this._col);
      return token;
    });
    this._strip.replaceChildren(...tokens);
  }

  private _weight(row: number, col: number): Weight {
    const { pixels, facts } = this._head!;
    const i = row * pixels.width + col;
    const share = pixels.shares[i];
    const isMasked = Number.isNaN(share) && !pixels.words.has(i);
    return pixels.words.get(i) ?? (isMasked ? 0 : share * weightOf(facts.scale));
  }

  private _colours: number[];
  private _sides: Sides;
  private _pathButton: HTMLButtonElement;
  private _title: HTMLElement;
  private _legend: HTMLElement;
  private _said: HTMLElement;
  private _strip: HTMLElement;
  private _table: HTMLDetailsElement;
  private _place: HTMLElement;
  private _svg: SVGSVGElement | null = null;
  private _rowBand: SVGRectElement | null = null;
  private _stepBand: SVGRectElement | null = null;
  private _step: number | null = null;
  private _colBand: SVGRectElement | null = null;
  private _heard: SVGRectElement | null = null;
  private _top: number;
  private _cell = { w: 1, h: 1, left: 0 };
  private _head: Head | null = null;
  private _row = 0;
  private _col = 0;
  private _locked: number | null = null;
  private _isPointing = false;
  private _hasPath = true;
  private _scale: Scale = 'head';
}

/** A hatched box, which stands for padding. */
function hatching(x: number, y: number, width: number, height: number): SVGElement | null {
  if (width <= 0 || height <= 0) {
    return null;
  }
  const count = Math.ceil((width + height) / 6);
  const lines = Array.from({ length: count }, (_, i) => `M${6 * i} 0L${6 * i - height} ${height}`);
  return draw('svg', { x, y, width, height, class: 'rfnb-Matrix-padding' }, draw('path', { d: lines.join('') }));
}

function titleOf(facts: AttentionHead, scripts: AttentionScripts, words: Words): Node[] {
  const measured = `${words.__('entropy')} ${formatNumber(facts.entropy)}`;
  const flags = facts.flags.map(flag => make('strong', { class: 'rfnb-Flag' }, flag));
  const told = [facts.role, measured].filter(Boolean).join(' · ');
  return [make('b', {}, nameOf(facts, scripts, words)), make('span', {}, ` ${told} `), ...flags];
}

/** The name of a head, without the parts that all heads share. */
function nameOf(facts: AttentionHead, { heads, unit }: AttentionScripts, words: Words): string {
  const layer = facts.layer < 0 ? words.__('mean over layers') : facts.name || words.__('layer %1', facts.layer);
  const one = unit === 'hypothesis' ? words.__('hypothesis %1', facts.head) : words.__('head %1', facts.head);
  const mean = unit === 'hypothesis' ? words.__('mean over hypotheses') : words.__('mean over heads');
  const head = facts.head < 0 ? mean : one;
  const hasOthers = (key: 'layer' | 'head') => heads.some(other => other[key] !== facts[key]);
  return [hasOthers('layer') || facts.layer < 0 ? layer : '', hasOthers('head') || facts.head < 0 ? head : '']
    .filter(Boolean)
    .join(', ');
}

function weightOf(scale: Weight): number {
  return typeof scale === 'number' ? scale : 0;
}

function clamp(at: number, size: number): number {
  return Math.max(0, Math.min(size - 1, at));
}

import type { BeamScripts } from '../../schema';
import type { Words } from '../../words';
import { draw, make } from '../make';
import { Search } from '../search';
import { boxOf, DrawnColumn, placed, Place, ROW, rowsOf, Shown, topOf } from './column';
import { legendOf, tableOf, tell } from './facts';
import { familyOf, findLabels, neighbour, readTree, TreeColumn, TreeNode } from './nodes';

/** Up to so many nodes, the pruned candidates of all steps are there from the beginning. */
const OPEN = 800;
/** Columns are drawn this far beyond what is visible. */
const MARGIN = 400;
/** The width that is assumed before the page has one. */
const WIDTH = 1200;

/** Makes the tree of a search live: each node can be read, followed and found. */
export function enhanceBeam(root: HTMLElement, scripts: BeamScripts, words: Words): () => void {
  const still = root.querySelector<HTMLElement>('[data-rfnb-tree]');
  if (!still || !(scripts.columns?.length > 0)) {
    return () => undefined;
  }
  const stills = [...root.querySelectorAll<HTMLElement>('[data-rfnb-still]')];
  const tree = new Tree(scripts, words);
  still.replaceWith(tree.element);
  stills.forEach(legend => (legend.hidden = true));
  tree.begin();
  return () => {
    tree.dispose();
    tree.element.replaceWith(still);
    stills.forEach(legend => (legend.hidden = false));
  };
}

class Tree {
  constructor(
    private _scripts: BeamScripts,
    private _words: Words
  ) {
    const { beam, living, name, fall } = _scripts;
    this._columns = readTree(_scripts);
    this._places = placed(this._columns);
    const count = this._columns.reduce((sum, { nodes }) => sum + nodes.length, 0);
    this._foldable = this._columns.flatMap(({ nodes }, at) => (nodes.some(isPruned) ? [at] : []));
    this._open = new Set(count <= OPEN ? this._foldable : this._foldable.filter(at => this._stepOf(at) === fall?.step));
    const search = new Search<TreeNode>(
      _words,
      _words.__('Find a label'),
      text => this._find(text),
      node => this._goTo(node)
    );
    this._all = make('button', { type: 'button' }, _words.__('Pruned candidates'));
    this._all.title = _words.__('Show or hide the candidates that found no place in the beam, of all steps');
    this._all.hidden = this._foldable.length === 0;
    this._all.addEventListener('click', () => this._toggleAll());
    const steps = _words._n('%1 step', '%1 steps', this._columns.length, this._columns.length);
    const label = _words.__('Tree of %1: %2, beam %3', name, steps, living ?? beam);
    this._head = make('div', { class: 'rfnb-Tree-head' });
    this._ring = draw('rect', { class: 'rfnb-Tree-ring', rx: 5, visibility: 'hidden' });
    this._plot = draw(
      'svg',
      { class: 'rfnb-Tree-plot', tabindex: 0, role: 'application', 'aria-label': label },
      this._ring
    );
    this._frame = make('div', { class: 'rfnb-Tree-frame' }, this._head, this._plot);
    this._said = make('div', { class: 'rfnb-Facts rfnb-Tree-facts', role: 'status' });
    this._table = make('details', { class: 'rfnb-Tree-table' }, make('summary', {}, _words.__('the tree as a table')));
    this.element = make(
      'div',
      { class: 'rfnb-Tree rfnb-Look', role: 'group', 'aria-label': label, 'data-lm-suppress-shortcuts': 'true' },
      make('div', { class: 'rfnb-Tools' }, search.element, this._all),
      this._frame,
      this._said,
      legendOf(this._columns, _scripts, _words),
      this._table
    );
    this._listen();
    this._tell(null);
  }

  readonly element: HTMLElement;

  /** Draws what is visible, and again when the width changes. */
  begin(): void {
    this._redraw();
    const fall = this._columns.findIndex(({ step }) => step === this._scripts.fall?.step);
    if (fall >= 0) {
      this._frame.scrollLeft = this._places[fall].x - this._frame.clientWidth / 2;
    }
    this._observer = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this._drawVisible());
    this._observer?.observe(this._frame);
  }

  dispose(): void {
    this._observer?.disconnect();
    cancelAnimationFrame(this._waiting);
  }

  private _listen(): void {
    const plot = this._plot;
    this._frame.addEventListener('scroll', () => {
      cancelAnimationFrame(this._waiting);
      this._waiting = requestAnimationFrame(() => this._drawVisible());
    });
    plot.addEventListener('pointerover', event => this._tell(this._nodeAt(event) ?? this._chosen ?? this._cursor));
    plot.addEventListener('pointerleave', () => this._tell(this._chosen ?? this._cursor));
    plot.addEventListener('click', event => {
      const node = this._nodeAt(event);
      if (node) {
        this._moveTo(node);
        this._choose(node === this._chosen ? null : node);
      }
    });
    plot.addEventListener('focus', () => this._moveTo(this._cursor ?? this._first, false));
    plot.addEventListener('keydown', event => this._onKey(event));
    this._head.addEventListener('click', event => {
      const at = (event.target as Element).closest<HTMLElement>('[data-at]')?.dataset.at;
      if (at !== undefined) {
        this._toggle(Number(at));
      }
    });
    this._table.addEventListener('toggle', () => {
      if (this._table.open && this._table.childElementCount === 1) {
        this._table.append(tableOf(this._columns, this._scripts, this._words));
      }
    });
  }

  private _nodeAt(event: Event): TreeNode | null {
    const [at, row] = (event.target as Element).closest('[data-node]')?.getAttribute('data-node')?.split(':') ?? [];
    return this._columns[Number(at)]?.nodes.find(node => node.row === Number(row)) ?? null;
  }

  private _onKey(event: KeyboardEvent): void {
    const node = this._cursor;
    if (!node || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const next = neighbour(node, event.key, this._columns, other => this._isVisible(other));
    if (next) {
      this._moveTo(next);
    } else if (event.key === 'Enter' || event.key === ' ') {
      this._choose(node === this._chosen ? null : node);
    } else if (event.key === 'Escape') {
      this._choose(null);
    } else if (event.key === 'p') {
      this._toggle(node.at);
    } else if (!event.key.startsWith('Arrow')) {
      return;
    }
    event.preventDefault();
  }

  private _find(text: string): TreeNode[] {
    const matches = findLabels(this._columns, text);
    this._matches = new Set(matches);
    this._mark();
    return matches;
  }

  private _goTo(node: TreeNode): void {
    if (!this._isVisible(node)) {
      this._toggle(node.at);
    }
    this._moveTo(node);
  }

  /** Puts the ring around a node, tells of it, and scrolls to it. */
  private _moveTo(node: TreeNode | null, show = true): void {
    this._cursor = node;
    this._tell(node);
    this._drawRing();
    if (node && show) {
      const { x, width } = this._places[node.at];
      const { scrollLeft, clientWidth, scrollTop, clientHeight } = this._frame;
      const [top, head] = [topOf(node.row, this._scripts.beam), this._head.offsetHeight];
      this._frame.scrollLeft += missing(x - 30, x + width + 30, scrollLeft, scrollLeft + clientWidth);
      this._frame.scrollTop += missing(top - 8, top + head + ROW + 8, scrollTop, scrollTop + clientHeight);
      this._drawVisible();
    }
  }

  /** Highlights the family of a node, and shows the pruned candidates of its step; null ends that. */
  private _choose(node: TreeNode | null): void {
    this._chosen = node;
    this._family = node && familyOf(node);
    this._mark();
    if (node && !this._open.has(node.at)) {
      this._toggle(node.at);
    }
    this._tell(node ?? this._cursor);
  }

  private _toggle(at: number): void {
    if (this._foldable.includes(at)) {
      if (!this._open.delete(at)) {
        this._open.add(at);
      }
      this._afterFolding([at]);
    }
  }

  private _toggleAll(): void {
    this._open = new Set(this._open.size < this._foldable.length ? this._foldable : []);
    this._afterFolding([...this._drawn.keys()]);
  }

  /** Draws these columns again. A node that is no longer drawn loses the ring. */
  private _afterFolding(columns: number[]): void {
    if (this._cursor && !this._isVisible(this._cursor)) {
      this._cursor = this._cursor.parent ?? this._first;
    }
    columns.forEach(at => this._erase(at));
    this._redraw();
  }

  private _erase(at: number): void {
    const drawn = this._drawn.get(at);
    drawn?.column.element.remove();
    drawn?.number.remove();
    this._drawn.delete(at);
  }

  private _isVisible(node: TreeNode): boolean {
    return !isPruned(node) || this._open.has(node.at);
  }

  /** Where the best hypothesis begins. */
  private get _first(): TreeNode | null {
    const [{ nodes }] = this._columns;
    return nodes.find(({ best }) => best) ?? nodes[0] ?? null;
  }

  private _stepOf(at: number): number {
    return this._columns[at].step;
  }

  /** Draws what is missing, at the size that it needs. */
  private _redraw(): void {
    const { beam } = this._scripts;
    const last = this._places[this._places.length - 1];
    const width = last.x + last.width + 8;
    const height = topOf(rowsOf(this._columns, beam, this._open), beam) + 4;
    Object.entries({ width, height }).forEach(([name, value]) => this._plot.setAttribute(name, String(value)));
    this._head.style.width = `${width}px`;
    this._all.setAttribute('aria-pressed', String(this._open.size === this._foldable.length));
    this._drawVisible();
    this._drawRing();
  }

  /** Draws the columns near to what is visible, and removes the others. */
  private _drawVisible(): void {
    const { scrollLeft, clientWidth } = this._frame;
    const [left, right] = [scrollLeft - MARGIN, scrollLeft + (clientWidth || WIDTH) + MARGIN];
    this._places.forEach((place, at) => {
      const isNear = place.x + place.width > left && place.x < right;
      if (isNear && !this._drawn.has(at)) {
        const column = new DrawnColumn(this._columns[at], this._shown);
        const number = this._number(at, place);
        this._ring.before(column.element);
        this._head.append(number);
        this._drawn.set(at, { column, number });
      } else if (!isNear) {
        this._erase(at);
      }
    });
  }

  private _mark(): void {
    this._drawn.forEach(({ column }) => column.mark(this._shown));
  }

  private get _shown(): Shown {
    return {
      places: this._places,
      beam: this._scripts.beam,
      isVisible: node => this._isVisible(node),
      family: this._family,
      chosen: this._chosen,
      matches: this._matches,
      fall: this._scripts.fall
    };
  }

  /** The number of a step; a click shows or hides its pruned candidates. */
  private _number(at: number, { x, width }: Place): HTMLElement {
    const step = this._stepOf(at);
    const pruned = this._columns[at].nodes.filter(isPruned).length;
    const title = this._words._n('step %2: %1 pruned candidate', 'step %2: %1 pruned candidates', pruned, pruned, step);
    const isOpen = this._open.has(at);
    const made = pruned
      ? make('button', { type: 'button', tabindex: -1, title, 'aria-expanded': String(isOpen) }, String(step))
      : make('span', {}, String(step));
    made.dataset.at = String(at);
    made.style.left = `${x}px`;
    made.style.width = `${width}px`;
    return made;
  }

  private _drawRing(): void {
    const node = this._cursor;
    this._ring.setAttribute('visibility', node ? 'visible' : 'hidden');
    const box = node ? boxOf(this._places[node.at], topOf(node.row, this._scripts.beam), 4) : {};
    Object.entries(box).forEach(([name, value]) => this._ring.setAttribute(name, String(value)));
  }

  private _tell(node: TreeNode | null): void {
    this._said.replaceChildren(...tell(node, this._chosen, this._columns, this._scripts, this._words));
  }

  private _columns: TreeColumn[];
  private _places: Place[];
  /** The positions of the columns that have pruned candidates, and of those which show them. */
  private _foldable: number[];
  private _open: Set<number>;
  private _all: HTMLButtonElement;
  private _frame: HTMLElement;
  private _head: HTMLElement;
  private _plot: SVGSVGElement;
  private _ring: SVGRectElement;
  private _said: HTMLElement;
  private _table: HTMLDetailsElement;
  private _drawn = new Map<number, { column: DrawnColumn; number: HTMLElement }>();
  private _cursor: TreeNode | null = null;
  private _chosen: TreeNode | null = null;
  private _family: Set<TreeNode> | null = null;
  private _matches = new Set<TreeNode>();
  private _observer: ResizeObserver | null = null;
  private _waiting = 0;
}

function isPruned({ state }: TreeNode): boolean {
  return state === 'pruned';
}

/** How far to scroll along one axis. */
function missing(start: number, end: number, from: number, to: number): number {
  return start < from ? start - from : end > to ? end - to : 0;
}

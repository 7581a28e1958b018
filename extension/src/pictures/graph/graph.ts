import type { Words } from '../../words';
import { make } from '../make';
import { Search } from '../search';
import { Canvas } from './canvas';
import { find } from './search';
import { svgOfImage } from './svg';
import { BodyView, NodeView } from './tree';
import type { GraphScripts } from './types';

let drawings = 0;

/** Makes the drawing of a graph interactive: nodes expand and collapse, and it can be searched, navigated and zoomed. */
export function enhanceGraph(root: HTMLElement, scripts: GraphScripts, words: Words): () => void {
  const image = root.querySelector<HTMLImageElement>('img[src^="data:image/svg+xml;base64,"]');
  const prefix = `rfnb-${drawings++}-`;
  const svg = image && svgOfImage(image, prefix);
  if (!image || !svg || !scripts.bodies?.[scripts.root]) {
    return () => undefined;
  }
  const graph = new Graph(svg, scripts, prefix, image.alt, words);
  image.replaceWith(graph.element);
  graph.canvas.fit(graph.first);
  return () => {
    graph.element.replaceWith(image);
    graph.canvas.dispose();
  };
}

class Graph {
  constructor(svg: SVGSVGElement, scripts: GraphScripts, prefix: string, alt: string, words: Words) {
    this._words = words;
    this._root = new BodyView(scripts, scripts.root, svg, null, prefix);
    this.canvas = new Canvas(svg, words);
    this._drawnSize = this._root.size;
    this._svgSize = this.canvas.size;
    this._facts = make('div', { class: 'rfnb-Facts', role: 'status' });
    const search = new Search(
      words,
      words.__('Find a node by name or class'),
      text => find(scripts, text),
      path => this._goTo(path)
    );
    const tools = make('div', { class: 'rfnb-Tools' }, search.element, ...this.canvas.buttons);
    this.element = make(
      'div',
      { class: 'rfnb-Graph rfnb-Look', role: 'group', 'aria-label': alt, 'data-lm-suppress-shortcuts': 'true' },
      tools,
      this.canvas.element,
      this._facts
    );
    this._ring = svg.ownerDocument.createElementNS(svg.namespaceURI, 'rect') as SVGRectElement;
    this._ring.setAttribute('class', 'rfnb-Graph-ring');
    svg.setAttribute('role', 'tree');
    svg.setAttribute('aria-label', alt);
    this._label(this._root);
    this._root.inOrder[0]?.element.setAttribute('tabindex', '0');
    this._tell(null);
    svg.addEventListener('click', event => this._onClick(event));
    svg.addEventListener('focusin', event => this._onFocus(event));
    svg.addEventListener('keydown', event => this._onKey(event));
  }

  readonly element: HTMLElement;
  readonly canvas: Canvas;

  /** The first node in reading order. */
  get first(): Element | undefined {
    return this._root.inOrder[0]?.element;
  }

  /** Makes nodes focusable, with a label for screen readers. */
  private _label(body: BodyView): void {
    for (const node of body.nodes.values()) {
      this._views.set(node.element, node);
      if (!node.element.hasAttribute('role')) {
        node.element.setAttribute('role', 'treeitem');
        node.element.setAttribute('aria-label', node.spec.text);
        node.element.setAttribute('tabindex', '-1');
      }
      if (node.canFold) {
        node.element.setAttribute('aria-expanded', String(node.isOpen));
      }
      if (node.inner) {
        inside(node.element)?.setAttribute('role', 'group');
        this._label(node.inner);
      }
    }
  }

  private _viewAt(event: Event): NodeView | null {
    const element = (event.target as Element).closest('[data-node]');
    return element ? (this._views.get(element) ?? null) : null;
  }

  private _onClick(event: MouseEvent): void {
    const node = this._viewAt(event);
    if (node && !this.canvas.wasDragged) {
      const again = node === this._chosen;
      this._choose(node);
      if (again || event.detail === 2 || (event.target as Element).closest('[data-fold]')) {
        this._toggle(node);
      }
    }
  }

  private _onFocus(event: FocusEvent): void {
    const node = this._viewAt(event);
    if (node && node !== this._chosen) {
      this._choose(node, false);
    }
  }

  private _onKey(event: KeyboardEvent): void {
    const node = this._viewAt(event);
    if (!node || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const next = neighbour(node, event.key);
    if (event.key === 'Enter' || event.key === ' ') {
      this._toggle(node);
    } else if (next) {
      this._choose(next);
    }
    if (event.key.startsWith('Arrow') || event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
    }
  }

  private _toggle(node: NodeView, focus = true): void {
    if (node.canFold) {
      this._ring.remove();
      node.toggle();
      this._root.update();
      this._label(node.owner);
      const { w, h } = this._root.size;
      this.canvas.resize(this._svgSize.w + w - this._drawnSize.w, this._svgSize.h + h - this._drawnSize.h);
      this._choose(node, focus);
    }
  }

  private _choose(node: NodeView, focus = true): void {
    this._chosen?.element.setAttribute('tabindex', '-1');
    this._chosen = node;
    const { element, size } = node;
    element.setAttribute('tabindex', '0');
    const ring = { x: -3, y: -3, width: size.w + 6, height: size.h + 6, rx: 8 };
    Object.entries(ring).forEach(([name, value]) => this._ring.setAttribute(name, String(value)));
    element.append(this._ring);
    this._tell(node);
    if (focus) {
      element.focus({ preventScroll: true });
      this.canvas.show(element);
    }
  }

  private _tell(node: NodeView | null): void {
    const words = this._words;
    const fold = node?.isOpen ? words.__('Press Enter to collapse it.') : words.__('Press Enter to expand it.');
    const parts = node
      ? [make('b', {}, node.spec.path || node.spec.name), `  ${node.spec.text} `, node.canFold ? fold : null]
      : [words.__('Click a node or move with the arrow keys. Click again or press Enter to expand or collapse it.')];
    this._facts.replaceChildren(...parts.filter(part => part !== null));
  }

  /** Expands the nodes around a node, and moves to it. */
  private _goTo(path: string[]): void {
    let body: BodyView | null = this._root;
    path.forEach((id, i) => {
      const node: NodeView | undefined = body?.nodes.get(id);
      if (node && i === path.length - 1) {
        this._choose(node, false);
        this.canvas.show(node.element);
      } else if (node && !node.isOpen) {
        this._toggle(node, false);
      }
      body = node?.inner ?? null;
    });
  }

  private _words: Words;
  private _root: BodyView;
  private _drawnSize: { w: number; h: number };
  private _svgSize: { w: number; h: number };
  private _facts: HTMLElement;
  private _ring: SVGRectElement;
  private _views = new WeakMap<Element, NodeView>();
  private _chosen: NodeView | null = null;
}

/** The part of an open node that has other nodes. */
function inside(node: Element): Element | undefined {
  return [...node.children].find(child => child.querySelector('[data-node]'));
}

/** The next node for an arrow key: up and down along edges, into and out of open nodes; sideways within a rank. */
export function neighbour(node: NodeView, key: string): NodeView | null {
  const { owner, spec } = node;
  if (key === 'ArrowDown') {
    return node.inner?.inOrder[0] ?? after(node);
  }
  if (key === 'ArrowUp') {
    const before = owner.spec.edges.find(edge => edge.to === spec.id && !edge.back && owner.nodes.has(edge.from));
    return before ? lastIn(owner.nodes.get(before.from)!) : owner.parent;
  }
  const row = owner.inOrder.filter(other => other.spec.rank === spec.rank && other.spec.column === spec.column);
  return row[row.indexOf(node) + (key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : NaN)] ?? null;
}

function after({ owner, spec }: NodeView): NodeView | null {
  const next = owner.spec.edges.find(edge => edge.from === spec.id && !edge.back && owner.nodes.has(edge.to));
  return next ? owner.nodes.get(next.to)! : owner.parent && after(owner.parent);
}

function lastIn(node: NodeView): NodeView {
  const last = node.inner?.inOrder.pop();
  return last ? lastIn(last) : node;
}

import { pathOf, place, Placed } from './layout';
import { fragment } from './svg';
import type { Body, GraphNode, GraphScripts, Size } from './types';

/** A drawn body: the elements of its nodes and edges. */
export class BodyView {
  constructor(scripts: GraphScripts, id: string, element: Element, parent: NodeView | null, prefix: string) {
    this.spec = scripts.bodies[id];
    this.element = element;
    this.parent = parent;
    for (const spec of this.spec.nodes) {
      const drawn = element.querySelector<SVGGElement>(having('data-node', spec.id));
      if (drawn) {
        this.nodes.set(spec.id, new NodeView(scripts, spec, drawn, this, prefix));
      }
    }
    this.size = { w: this.spec.width, h: this.spec.height };
  }

  /** Lays out again from the inside out: each body by the sizes of its nodes. */
  update(): void {
    this.nodes.forEach(node => node.inner?.update());
    const placed = place(this.spec, spec => this.nodes.get(spec.id)?.size ?? spec);
    this.nodes.forEach((node, id) => node.move(placed.nodes.get(id)!));
    this._drawEdges(placed);
    this.size = { w: placed.width, h: placed.height };
  }

  /** The nodes from top to bottom, column by column. */
  get inOrder(): NodeView[] {
    const key = ({ spec }: NodeView) => [spec.column, spec.rank, spec.x];
    return [...this.nodes.values()].sort((a, b) => compare(key(a), key(b)));
  }

  private _drawEdges(placed: Placed): void {
    for (const edge of this.spec.edges) {
      const path = this._edge(edge.id)?.querySelector('path');
      path?.setAttribute('d', pathOf(placed.edges.get(edge.id)!, edge.shape));
    }
  }

  /** The edge of this body, not of a body inside it. */
  private _edge(id: Body['edges'][0]['id']): Element | undefined {
    const all = [...this.element.querySelectorAll(having('data-edge', String(id)))];
    return all.find(edge => (edge.closest('[data-node]') ?? null) === (this.parent?.element ?? null));
  }

  readonly spec: Body;
  readonly element: Element;
  readonly parent: NodeView | null;
  readonly nodes = new Map<string, NodeView>();
  size: Size;
}

/** A drawn node, closed or open. */
export class NodeView {
  constructor(scripts: GraphScripts, spec: GraphNode, element: SVGGElement, owner: BodyView, prefix: string) {
    this.spec = spec;
    this.element = element;
    this.owner = owner;
    this._scripts = scripts;
    this._prefix = prefix;
    this._isOpen = Boolean(spec.open);
    if (this._isOpen && spec.body !== null) {
      this.inner = new BodyView(scripts, spec.body, element, this, prefix);
    }
    this._frames = framesOf(element, spec);
    this._frameSize = spec;
  }

  readonly spec: GraphNode;
  readonly element: SVGGElement;
  readonly owner: BodyView;
  /** The body that is drawn inside; null while the node is closed. */
  inner: BodyView | null = null;

  get isOpen(): boolean {
    return this._isOpen;
  }

  get canFold(): boolean {
    return this.spec.body !== null && Boolean(this.spec.other);
  }

  get size(): Size {
    const { spec, inner } = this;
    const card = spec.open && spec.other ? spec.other : spec;
    const { pad, head } = this._scripts.frame;
    return inner ? { w: Math.max(card.w, inner.size.w + 2 * pad), h: head + inner.size.h + pad } : card;
  }

  /** Opens or closes the node; what was expanded inside stays expanded. */
  toggle(): void {
    if (this.canFold) {
      const shown = [...this.element.childNodes];
      this.element.replaceChildren(...(this._otherDrawn ?? this._drawOther()));
      this._otherDrawn = shown;
      [this.inner, this._otherInner] = [this._otherInner, this.inner];
      [this._frames, this._otherFrames] = [this._otherFrames, this._frames];
      [this._frameSize, this._otherFrameSize] = [this._otherFrameSize, this._frameSize];
      this._isOpen = !this._isOpen;
      this.element.setAttribute('aria-expanded', String(this._isOpen));
    }
  }

  move(box: { x: number; y: number } & Size): void {
    this.element.setAttribute('transform', `translate(${box.x},${box.y})`);
    const [wider, higher] = [box.w - this._frameSize.w, box.h - this._frameSize.h];
    for (const { rect, width, height } of this._frames) {
      rect.setAttribute('width', String(width.grows ? width.was + wider : width.was));
      rect.setAttribute('height', String(height.grows ? height.was + higher : height.was));
    }
  }

  private _drawOther(): Node[] {
    const { spec, _scripts: scripts, _prefix: prefix } = this;
    const made: Node[] = fragment(spec.other!.svg, prefix);
    this.element.replaceChildren(...made);
    this._otherFrames = framesOf(this.element, spec.other!);
    this._otherFrameSize = spec.other!;
    if (!this._isOpen) {
      const { pad, head } = scripts.frame;
      const [inside] = fragment(`<g transform="translate(${pad},${head})"></g>`, prefix);
      inside.append(...fragment(scripts.bodies[spec.body!].svg, prefix));
      this.element.append(inside);
      made.push(inside);
      this._otherInner = new BodyView(scripts, spec.body!, this.element, this, prefix);
    }
    return made;
  }

  private _scripts: GraphScripts;
  private _prefix: string;
  private _isOpen: boolean;
  private _otherDrawn: Node[] | null = null;
  private _otherInner: BodyView | null = null;
  private _frames: Frame[];
  private _otherFrames: Frame[] = [];
  private _frameSize: Size;
  private _otherFrameSize: Size = { w: 0, h: 0 };
}

/** A rectangle around a node, which grows with it. */
interface Frame {
  rect: Element;
  width: { was: number; grows: boolean };
  height: { was: number; grows: boolean };
}

function framesOf(element: Element, { w, h }: Size): Frame[] {
  const own = [...element.querySelectorAll('rect')].filter(rect => rect.closest('[data-node]') === element);
  return own
    .filter(rect => !rect.closest('[data-edge]'))
    .map(rect => {
      const [width, height] = ['width', 'height'].map(name => Number(rect.getAttribute(name)));
      return { rect, width: { was: width, grows: width > w - 12 }, height: { was: height, grows: height > h - 12 } };
    });
}

/** A CSS selector for an attribute with this value. */
function having(attribute: string, value: string): string {
  return `[${attribute}="${value.replace(/["\\]/g, '\\$&')}"]`;
}

function compare(a: number[], b: number[]): number {
  const i = a.findIndex((value, index) => value !== b[index]);
  return i < 0 ? 0 : a[i] - b[i];
}

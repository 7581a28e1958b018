import type { Words } from '../../words';
import { button, make } from '../make';

const STEP = 1.25;
const [LEAST, MOST] = [0.1, 4];
/** Smallest zoom for fitting the width; wider drawings scroll sideways. */
const LEGIBLE = 0.7;
const DRAGGED = 4;

/** Shows a drawing that can be dragged, and zoomed by buttons or by Ctrl and the wheel. */
export class Canvas {
  constructor(svg: SVGSVGElement, words: Words) {
    this._svg = svg;
    this._size = sizeOf(svg);
    this.element = make('div', { class: 'rfnb-Canvas' }, svg);
    this.buttons = [
      button('−', words.__('Zoom out'), () => this._zoomBy(1 / STEP)),
      button('+', words.__('Zoom in'), () => this._zoomBy(STEP)),
      button('⤢', words.__('Fit the whole graph, or its width'), () => this._fitAll())
    ];
    this.element.addEventListener('wheel', event => this._onWheel(event), { passive: false });
    this.element.addEventListener('pointerdown', event => this._onDown(event));
    this._observer = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this._refit());
    this._observer?.observe(this.element);
    this._draw();
  }

  readonly element: HTMLElement;
  readonly buttons: HTMLButtonElement[];

  get size(): { w: number; h: number } {
    return this._size;
  }

  /** Whether the current click ends a drag. */
  get wasDragged(): boolean {
    return this._wasDragged;
  }

  resize(w: number, h: number): void {
    this._size = { w, h };
    if (this._isFitted) {
      this.fit();
    } else {
      this._draw();
    }
  }

  /** Fits the width as far as the text stays legible, without enlarging. `middle`: the element to scroll to. */
  fit(middle?: Element): void {
    const room = this.element.clientWidth;
    this._middle = middle ?? this._middle;
    this._isFitted = true;
    this._zoom = room > 0 ? Math.min(Math.max(room / this._size.w, LEGIBLE), 1) : 1;
    this._draw();
  }

  /** Fits again when the drawing is first shown, or when the width of the page changes. */
  private _refit(): void {
    const room = this.element.clientWidth;
    if (this._isFitted && room > 0 && room !== this._room) {
      this._room = room;
      this.fit();
      if (this._middle) {
        this._scrollTo(this._middle);
      }
    }
  }

  private _scrollTo(element: Element): void {
    const [view, box] = [this.element.getBoundingClientRect(), element.getBoundingClientRect()];
    this.element.scrollLeft += (box.left + box.right - view.left - view.right) / 2;
  }

  /** Fits the whole drawing; if it is fitted already, fits its width. */
  private _fitAll(): void {
    const was = this._zoom;
    this.fit();
    const { clientWidth } = this.element;
    const { maxHeight } = getComputedStyle(this.element);
    const all = within(Math.min(this._zoom, clientWidth / this._size.w, parseFloat(maxHeight) / this._size.h));
    if (all > 0 && Math.abs(all - was) > 0.01 * was) {
      this._zoom = all;
      this._isFitted = false;
      this._draw();
    }
  }

  /** Scrolls as far as needed to show the element. */
  show(element: Element): void {
    const [view, box] = [this.element.getBoundingClientRect(), element.getBoundingClientRect()];
    const margin = 24;
    if (box.width > view.width) {
      this._scrollTo(element);
    } else {
      this.element.scrollLeft += missing(box.left - margin, box.right + margin, view.left, view.right);
    }
    this.element.scrollTop += missing(box.top - margin, box.bottom + margin, view.top, view.bottom);
  }

  dispose(): void {
    this._observer?.disconnect();
    this._stop();
  }

  private _draw(): void {
    const { w, h } = this._size;
    this._svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
    this._svg.setAttribute('width', String(w * this._zoom));
    this._svg.setAttribute('height', String(h * this._zoom));
  }

  /** Zooms around the point (x, y) of the window. */
  private _zoomBy(factor: number, x?: number, y?: number): void {
    const view = this.element.getBoundingClientRect();
    const [left, top] = [(x ?? view.left + view.width / 2) - view.left, (y ?? view.top + view.height / 2) - view.top];
    const zoom = within(this._zoom * factor);
    const [at, down] = [this.element.scrollLeft + left, this.element.scrollTop + top];
    const grown = zoom / this._zoom;
    this._zoom = zoom;
    this._isFitted = false;
    this._draw();
    this.element.scrollLeft = at * grown - left;
    this.element.scrollTop = down * grown - top;
  }

  private _onWheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this._zoomBy(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    }
  }

  private _onDown(event: PointerEvent): void {
    this._wasDragged = false;
    if (event.button !== 0 || event.pointerType === 'touch') {
      return;
    }
    const { scrollLeft, scrollTop } = this.element;
    const move = (now: PointerEvent) => {
      const [x, y] = [now.clientX - event.clientX, now.clientY - event.clientY];
      if (this._wasDragged || Math.hypot(x, y) > DRAGGED) {
        this._wasDragged = true;
        this.element.dataset.dragged = '';
        this.element.scrollLeft = scrollLeft - x;
        this.element.scrollTop = scrollTop - y;
      }
    };
    const stop = () => this._stop();
    window.addEventListener('pointermove', move);
    window.addEventListener('pointerup', stop);
    this._stop = () => {
      delete this.element.dataset.dragged;
      window.removeEventListener('pointermove', move);
      window.removeEventListener('pointerup', stop);
    };
  }

  private _svg: SVGSVGElement;
  private _size: { w: number; h: number };
  private _zoom = 1;
  private _room = 0;
  private _isFitted = false;
  private _middle: Element | null = null;
  private _observer: ResizeObserver | null;
  private _wasDragged = false;
  private _stop: () => void = () => undefined;
}

function sizeOf(svg: SVGSVGElement): { w: number; h: number } {
  const [w, h] = ['width', 'height'].map(name => parseFloat(svg.getAttribute(name) ?? '') || 0);
  return { w, h };
}

function within(zoom: number): number {
  return Math.min(MOST, Math.max(LEAST, zoom));
}

/** How far to scroll along one axis; an element that is larger than the room shows its start. */
function missing(start: number, end: number, from: number, to: number): number {
  if (start < from || end - start > to - from) {
    return start - from;
  }
  return end > to ? end - to : 0;
}

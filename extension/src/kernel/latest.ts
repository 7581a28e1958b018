/**
 * Makes one request at a time.
 *
 * Of the requests that arrive meanwhile only the last is made: dragging a slider does not fill the kernel's queue.
 */
export class Latest<Wish> {
  /**
   * @param ask - makes the request; its promise is fulfilled when the answer is shown
   * @param isShown - whether the answer is shown already
   */
  constructor(ask: (wish: Wish) => Promise<void>, isShown: (wish: Wish) => boolean) {
    this._ask = ask;
    this._isShown = isShown;
  }

  /** The last request, until it is answered. */
  get wanted(): Wish | null {
    return this._next ?? this._asked;
  }

  /** The request that waits. */
  get next(): Wish | null {
    return this._next;
  }

  /** Make this request now, or after the current one. */
  want(wish: Wish): void {
    if (this._asked !== null) {
      this._next = wish;
    } else {
      void this._go(wish);
    }
  }

  /** Drop the request that waits. */
  drop(): void {
    this._next = null;
  }

  private async _go(wish: Wish): Promise<void> {
    this._asked = wish;
    await this._ask(wish);
    this._asked = null;
    const next = this._next;
    this._next = null;
    if (next !== null && !this._isShown(next)) {
      await this._go(next);
    }
  }

  private _ask: (wish: Wish) => Promise<void>;
  private _isShown: (wish: Wish) => boolean;
  private _asked: Wish | null = null;
  private _next: Wish | null = null;
}

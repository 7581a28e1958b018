/**
 * Asks one question at a time.
 *
 * Of those that come meanwhile only the last is asked next, so that a dragged slider does not fill the kernel's queue.
 */
export class Latest<Wish> {
  /**
   * @param ask - asks, and has shown the answer when its promise is fulfilled
   * @param isShown - whether there is no need to ask
   */
  constructor(ask: (wish: Wish) => Promise<void>, isShown: (wish: Wish) => boolean) {
    this._ask = ask;
    this._isShown = isShown;
  }

  /** What was asked last, until it is answered. */
  get wanted(): Wish | null {
    return this._next ?? this._asked;
  }

  /** What is asked next. */
  get next(): Wish | null {
    return this._next;
  }

  /** Ask this, or ask it next. */
  want(wish: Wish): void {
    if (this._asked !== null) {
      this._next = wish;
    } else {
      void this._go(wish);
    }
  }

  /** Ask nothing more. */
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

import type { Words } from '../words';
import { button, make } from './make';

/** A search field; Enter goes to the next match. */
export class Search<Match> {
  constructor(
    private _words: Words,
    title: string,
    private _find: (text: string) => Match[],
    private _goTo: (match: Match) => void
  ) {
    this._input = make('input', { type: 'search', placeholder: _words.__('Find …'), 'aria-label': title, title });
    this._count = make('span', { class: 'rfnb-Search-count', role: 'status' });
    this._input.addEventListener('input', () => this._search());
    this._input.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        this._step(event.shiftKey ? -1 : 1);
        event.preventDefault();
      }
    });
    const back = button('↑', _words.__('Previous match'), () => this._step(-1));
    const on = button('↓', _words.__('Next match'), () => this._step(1));
    this.element = make('span', { class: 'rfnb-Search', role: 'search' }, this._input, back, on, this._count);
  }

  readonly element: HTMLElement;

  private _search(): void {
    this._found = this._find(this._input.value);
    this._at = -1;
    this._tell();
  }

  private _step(way: number): void {
    const { length } = this._found;
    if (length) {
      this._at = this._at < 0 ? (way > 0 ? 0 : length - 1) : (this._at + way + length) % length;
      this._goTo(this._found[this._at]);
    }
    this._tell();
  }

  private _tell(): void {
    const { length } = this._found;
    const many = this._words.__('%1 of %2', this._at + 1, length);
    const none = this._input.value.trim() ? this._words.__('no match') : '';
    this._count.textContent = length ? (this._at < 0 ? String(length) : many) : none;
  }

  private _input: HTMLInputElement;
  private _count: HTMLElement;
  private _found: Match[] = [];
  private _at = -1;
}

import type { Words } from '../../words';
import { button, make } from '../make';
import type { GraphScripts } from './types';

const MOST = 3000;

/** The search field for nodes, by name or class; Enter goes to the next match. */
export class Search {
  constructor(scripts: GraphScripts, words: Words, goTo: (path: string[]) => void) {
    this._scripts = scripts;
    this._words = words;
    this._goTo = goTo;
    const title = words.__('Find a node by name or class');
    this._input = make('input', { type: 'search', placeholder: words.__('Find …'), 'aria-label': title, title });
    this._count = make('span', { class: 'rfnb-Graph-count', role: 'status' });
    this._input.addEventListener('input', () => this._search());
    this._input.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        this._step(event.shiftKey ? -1 : 1);
        event.preventDefault();
      }
    });
    const back = button('↑', words.__('Previous match'), () => this._step(-1));
    const on = button('↓', words.__('Next match'), () => this._step(1));
    this.element = make('span', { class: 'rfnb-Graph-search', role: 'search' }, this._input, back, on, this._count);
  }

  readonly element: HTMLElement;

  private _search(): void {
    this._found = find(this._scripts, this._input.value);
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

  private _scripts: GraphScripts;
  private _words: Words;
  private _goTo: (path: string[]) => void;
  private _input: HTMLInputElement;
  private _count: HTMLElement;
  private _found: string[][] = [];
  private _at = -1;
}

/** The paths to the nodes whose text contains all words, each from the outermost node inwards. */
export function find(scripts: GraphScripts, text: string): string[][] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: string[][] = [];
  const look = (id: string, way: string[]) => {
    for (const node of scripts.bodies[id]?.nodes ?? []) {
      const path = [...way, node.id];
      const said = node.text.toLowerCase();
      if (found.length < MOST && wanted.every(word => said.includes(word))) {
        found.push(path);
      }
      if (node.body !== null && found.length < MOST) {
        look(node.body, path);
      }
    }
  };
  if (wanted.length) {
    look(scripts.root, []);
  }
  return found;
}

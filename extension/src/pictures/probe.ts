import { formatNumber } from '../numbers';
import type { ProbeScripts, ProbeSlide } from '../schema';
import type { Words } from '../words';
import { make } from './make';

const SIZE = 260;
const PICTURE = 'data:image/png;base64,';

/** Adds two sliders above the cards of a probe: the training step, and the step of the loop. */
export function enhanceProbe(root: HTMLElement, scripts: ProbeScripts, words: Words): () => void {
  const cards = root.querySelector('[data-rfnb-shots]');
  if (!cards || !(scripts.slides?.length > 1)) {
    return () => undefined;
  }
  const sliders = new Sliders(scripts, words, step => {
    const still = root.querySelector<HTMLImageElement>(`img[data-rfnb-shot="${Number(step)}"]`);
    return still?.src ?? '';
  });
  cards.before(sliders.element);
  return () => sliders.element.remove();
}

class Sliders {
  constructor(
    private _scripts: ProbeScripts,
    private _words: Words,
    private _pictureOf: (step: number) => string
  ) {
    const { slides, loop } = _scripts;
    const rows = [this._row(_words.__('Training step'), slides.length, at => (this._at = at))];
    if (loop && slides.some(({ values }) => values.length > 0)) {
      rows.push(this._row(_words.__('Step of %1', loop.name), loop.steps.length, at => (this._step = at)));
    }
    this._rows = rows;
    this._at = slides.length - 1;
    this._place = make('div', { class: 'rfnb-Slides-shown' });
    this.element = make('div', { class: 'rfnb-Slides rfnb-Look' }, ...rows.map(({ element }) => element), this._place);
    this._draw();
  }

  readonly element: HTMLElement;

  private _row(label: string, count: number, go: (at: number) => void): Row {
    const own = { 'aria-label': label, 'data-lm-suppress-shortcuts': 'true' }; // or the notebook takes the arrow keys
    const slider = make('input', { type: 'range', min: 0, max: count - 1, ...own });
    const said = make('output');
    slider.addEventListener('input', () => {
      go(Number(slider.value));
      this._draw();
    });
    return { slider, said, element: make('label', { class: 'rfnb-Slides-row' }, label, slider, said) };
  }

  private _draw(): void {
    const { slides, loop } = this._scripts;
    const slide = slides[this._at];
    const measures = Object.entries(slide.measures).map(([name, value]) => `${name} ${formatNumber(value)}`);
    const [training, steps] = this._rows;
    const count = this._words.__('%1 of %2', this._at + 1, slides.length);
    tell(training, this._at, [`${slide.step} (${count})`, ...measures].join(', '));
    const step = Math.min(this._step, slide.values.length - 1); // a slide with fewer steps does not move the slider
    if (loop && steps) {
      const none = this._words.__('no states of this training step');
      tell(steps, Math.max(step, 0), step < 0 ? none : String(loop.steps[step]));
    }
    this._place.replaceChildren(
      ...[this._image(slide), this._result(slide), this._states(slide, step)].filter(part => part !== null)
    );
  }

  private _image({ step, picture, shape }: ProbeSlide): HTMLElement | null {
    const src = picture || this._pictureOf(step);
    const [rows = 1, cols = 1] = shape.map(n => Math.max(n, 1));
    const scale = SIZE / Math.max(rows, cols);
    const alt = this._words.__('attention at step %1', step);
    return src.startsWith(PICTURE)
      ? make('img', { src, alt, width: Math.round(cols * scale), height: Math.round(rows * scale) })
      : null;
  }

  private _result({ words, note }: ProbeSlide): HTMLElement | null {
    const told = [words, note].filter(Boolean).join('\n');
    return told ? make('div', { class: 'rfnb-Slides-words' }, told) : null;
  }

  private _states({ values }: ProbeSlide, step: number): HTMLElement | null {
    const { loop } = this._scripts;
    if (!loop || step < 0) {
      return null;
    }
    const rows = loop.states.map((name, i) =>
      make('tr', {}, make('th', { scope: 'row' }, name), make('td', {}, values[step][i] ?? ''))
    );
    const caption = this._words.__('after step %1', loop.steps[step]);
    return make('table', {}, make('caption', {}, caption), ...rows);
  }

  private _rows: Row[];
  private _place: HTMLElement;
  /** The places of the training step, and of the step of the loop that the user chose. */
  private _at: number;
  private _step = 0;
}

interface Row {
  slider: HTMLInputElement;
  said: HTMLOutputElement;
  element: HTMLElement;
}

function tell({ slider, said }: Row, at: number, words: string): void {
  slider.value = String(at);
  slider.setAttribute('aria-valuetext', words);
  said.textContent = words;
}

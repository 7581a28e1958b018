import type { AttentionScripts } from '../../schema';
import type { Words } from '../../words';
import { clearPath } from './alignment';
import { Head, Matrix } from './matrix';
import { readPixels, coloursOf, Pixels } from './weights';

const LARGE = 'img[src^="data:image/svg+xml;base64,"]:not([data-rfnb-still] > img)';

/** Lets the user choose a head in the overview; the chosen head is shown large, and each weight can be read. */
export function enhanceAttention(root: HTMLElement, scripts: AttentionScripts, words: Words): () => void {
  const still = root.querySelector<HTMLImageElement>(LARGE);
  const inside = still && imageIn(still, 'large');
  if (!still || !inside) {
    return () => undefined;
  }
  const attention = new Attention(root, still, inside, scripts, words);
  void attention.begin();
  return () => attention.dispose();
}

class Attention {
  constructor(
    root: HTMLElement,
    private _still: HTMLImageElement,
    private _large: string,
    private _scripts: AttentionScripts,
    words: Words
  ) {
    this._stills = [...root.querySelectorAll<HTMLElement>('[data-rfnb-still]')];
    this._images = [...root.querySelectorAll<HTMLImageElement>('img[data-rfnb-head]')];
    this._frames = this._images.map(image => image.parentElement?.style.border ?? '');
    const spectrum = imageIn(_still, 'spectrum');
    const audio = root.querySelector<HTMLAudioElement>('audio[src^="data:audio/wav;base64,"]');
    this._matrix = new Matrix(_scripts, words, audio && spectrum ? { audio, spectrum } : null);
    this._chosen = _scripts.chosen.join(',');
  }

  /** Shows the chosen head; if its picture cannot be read, the view stays as it is. */
  async begin(): Promise<void> {
    if (await this._show(this._chosen)) {
      this._still.replaceWith(this._matrix.element);
      this._stills.forEach(still => (still.hidden = true));
      this._images.forEach(image => this._makeButton(image));
      this._mark();
    }
  }

  dispose(): void {
    this._isDisposed = true;
    this._matrix.dispose();
    this._matrix.element.replaceWith(this._still);
    this._stills.forEach(still => (still.hidden = false));
    for (const image of this._images) {
      image.removeEventListener('click', this._onClick);
      image.removeEventListener('keydown', this._onKey);
    }
  }

  private async _show(key: string): Promise<boolean> {
    const head = this._scripts.heads.find(({ layer, head }) => `${layer},${head}` === key);
    const isLarge = key === this._scripts.chosen.join(',');
    const image = this._images.find(candidate => candidate.dataset.rfnbHead === key);
    const source = isLarge ? this._large : image?.src;
    if (!head || !source) {
      return false;
    }
    const { colours, special, pool, head_pool } = this._scripts;
    try {
      const pixels = await readPixels(source, coloursOf(colours), special);
      if (!this._isDisposed && key === this._chosen) {
        this._matrix.show(this._headOf(head, pixels, isLarge ? pool : head_pool, isLarge));
      }
      return !this._isDisposed;
    } catch (error) {
      console.warn('rfnb: a picture cannot be read', error);
      return false;
    }
  }

  private _headOf(facts: Head['facts'], pixels: Pixels, pool: number[], isLarge: boolean): Head {
    const { shape, path } = this._scripts;
    const [rows, cols] = (facts.shape ?? shape).map((size, axis) => Math.ceil(size / pool[axis]));
    const entropy = typeof facts.entropy === 'number' ? facts.entropy : NaN;
    const own = isLarge ? path : clearPath(pixels.shares, pixels.width, rows, cols, entropy);
    return { facts, pixels, pool, rows, cols, path: own };
  }

  private _makeButton(image: HTMLImageElement): void {
    image.setAttribute('role', 'button');
    image.dataset.lmSuppressShortcuts = 'true';
    image.addEventListener('click', this._onClick);
    image.addEventListener('keydown', this._onKey);
  }

  private _onClick = (event: Event): void => {
    this._choose(event.currentTarget as HTMLImageElement);
  };

  private _onKey = (event: KeyboardEvent): void => {
    const image = event.currentTarget as HTMLImageElement;
    const next = neighbour(image, this._images, event.key);
    if (event.key === 'Enter' || event.key === ' ') {
      this._choose(image);
      event.preventDefault();
    } else if (next) {
      this._images.forEach(other => (other.tabIndex = other === next ? 0 : -1));
      next.focus();
      event.preventDefault();
    }
  };

  private _choose(image: HTMLImageElement): void {
    this._chosen = image.dataset.rfnbHead ?? '';
    this._mark();
    void this._show(this._chosen);
  }

  private _mark(): void {
    const found = this._images.find(image => image.dataset.rfnbHead === this._chosen) ?? this._images[0];
    const first = this._images.findIndex(image => image.dataset.rfnbHead === this._scripts.chosen.join(','));
    const plain = this._frames.find((_, i) => i !== first) ?? '';
    for (const image of this._images) {
      const isChosen = image.dataset.rfnbHead === this._chosen;
      image.parentElement!.style.border = isChosen ? this._frames[first] : plain;
      image.setAttribute('aria-pressed', String(isChosen));
      image.tabIndex = image === found ? 0 : -1;
    }
  }

  private _images: HTMLImageElement[];
  /** Facts about the chosen head, which are shown without scripts only. */
  private _stills: HTMLElement[];
  private _frames: string[];
  private _matrix: Matrix;
  private _chosen: string;
  private _isDisposed = false;
}

/** The picture of the weights, or of the sound, inside the picture with labels. */
function imageIn(still: HTMLImageElement, name: 'large' | 'spectrum'): string | null {
  const bytes = Uint8Array.from(atob(still.src.split(',')[1]), character => character.charCodeAt(0));
  const drawing = new DOMParser().parseFromString(new TextDecoder().decode(bytes), 'image/svg+xml');
  const source = drawing.querySelector(`image[data-rfnb-${name}]`)?.getAttribute('href') ?? '';
  return source.startsWith('data:image/png;base64,') ? source : null;
}

/** The nearest picture in the direction of an arrow key. */
function neighbour(image: HTMLImageElement, images: HTMLImageElement[], key: string): HTMLImageElement | null {
  const at = images.indexOf(image);
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    return images[at + (key === 'ArrowLeft' ? -1 : 1)] ?? null;
  }
  if (key !== 'ArrowUp' && key !== 'ArrowDown') {
    return null;
  }
  const here = image.getBoundingClientRect();
  const way = key === 'ArrowUp' ? -1 : 1;
  const lines = images
    .map(other => ({ other, box: other.getBoundingClientRect() }))
    .filter(({ box }) => (box.top - here.top) * way > here.height / 2)
    .map(({ other, box }) => ({ other, far: Math.abs(box.top - here.top) * 100 + Math.abs(box.left - here.left) }));
  return lines.sort((a, b) => a.far - b.far)[0]?.other ?? null;
}

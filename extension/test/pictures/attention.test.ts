import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

import { bestPath, clearPath } from '../../src/pictures/attention/alignment';
import { decode, coloursOf } from '../../src/pictures/attention/weights';
import { enhance } from '../../src/pictures/enhance';
import { settle } from '../fake_kernel';
import { press, rootOf } from '../page';

describe('weights', () => {
  it('are read back from colours', () => {
    const data = [255, 255, 255, 255, 0, 0, 0, 255, 127, 127, 127, 128, 255, 0, 0, 255, 129, 127, 126, 255];
    const picture = { width: 5, height: 1, data: new Uint8ClampedArray(data) };
    const pixels = decode(picture as ImageData, coloursOf('ffffff808080000000'), { nan: 'ff0000' });
    expect([...pixels.shares]).toEqual([0, 1, NaN, NaN, 0.5]);
    expect([...pixels.words]).toEqual([[3, 'nan']]);
  });

  it('have a best path, which never goes back', () => {
    const weights = new Float32Array([0.9, 0.1, 0, 9, 0.2, 0.1, 0.7, 9, 0.8, 0.1, 0.1, 9]);
    expect(bestPath(weights, 4, 3, 3)).toEqual([0, 0, 0]);
    expect(bestPath(new Float32Array([1, 0, 0, 1]), 2, 2, 2)).toEqual([0, 1]);
    expect(bestPath(new Float32Array([0, 1, 0, 0, 0, 1]), 3, 2, 3)).toEqual([1, 2]);
    expect(bestPath(new Float32Array(), 0, 0, 0)).toEqual([]);
  });

  it.each([
    ['one that goes on', [1, 0, 0, 0, 1, 0, 0, 0, 1], 0.2, [0, 1, 2]],
    ['one that comes back', [0, 0, 1, 0, 1, 0, 1, 0, 0], 0.2, []],
    ['one that stays', [1, 0, 0, 1, 0, 0, 1, 0, 0], 0.2, []],
    ['a flat one', [1, 0, 0, 0, 1, 0, 0, 0, 1], 0.95, []],
    ['no entropy', [1, 0, 0, 0, 1, 0, 0, 0, 1], NaN, []]
  ])('have a path that is shown, or none: %s', (_, weights, entropy, path) => {
    expect(clearPath(new Float32Array(weights), 3, 3, 3, entropy)).toEqual(path);
  });
});

/** Two heads of two rows and three columns. */
const scripts = {
  kind: 'attention',
  row_name: 'out',
  col_name: 'in',
  shape: [2, 3],
  padding: [0, 0],
  pool: [1, 1],
  head_pool: [1, 1],
  rows: ['a', '<b>'],
  cols: null,
  row_seconds: null,
  col_seconds: 0.01,
  causal: false,
  colours: 'ffffff808080000000',
  special: { nan: 'ff0000' },
  heads: [0, 1].map(head => ({
    layer: 0,
    head,
    name: '',
    entropy: 0.5,
    role: '',
    flags: head ? ['NaN <i>'] : [],
    scale: 0.5
  })),
  chosen: [0, 0],
  path: [0, 2]
};

describe('attention', () => {
  const PNG = 'data:image/png;base64,';
  /** By the end of its address: what is in a picture. */
  const pictures: { [end: string]: number[] } = { AAAA: [0, 255, 128, 128, 255, 0], BBBB: [0, 255, 255, 0, 255, 255] };

  function attentionRoot(spectrum = ''): HTMLElement {
    vi.spyOn(Image.prototype, 'decode' as never).mockImplementation((() => Promise.resolve()) as never);
    let drawn: number[] = [];
    const context = {
      drawImage: (image: HTMLImageElement) => (drawn = pictures[image.src.slice(-4)]),
      getImageData: () => ({ width: 3, height: 2, data: new Uint8ClampedArray(drawn.flatMap(n => [n, n, n, 255])) }),
      putImageData: () => undefined
    };
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never);
    vi.spyOn(HTMLCanvasElement.prototype, 'toDataURL').mockReturnValue(PNG);
    const svg = `<svg xmlns="http://www.w3.org/2000/svg"><image data-rfnb-head="0,0" data-rfnb-large="" href="${PNG}AAAA"/>${spectrum}</svg>`;
    const heads = ['AAAA', 'BBBB'].map((end, i) => `<div><img data-rfnb-head="0,${i}" src="${PNG}${end}"></div>`);
    return rootOf(
      `${heads.join('')}<p data-rfnb-still="">head 0</p><img src="data:image/svg+xml;base64,${btoa(svg)}">`
    );
  }

  beforeAll(() => {
    Image.prototype.decode ??= () => Promise.resolve();
    globalThis.ImageData ??= class {} as never;
    Object.defineProperty(HTMLImageElement.prototype, 'naturalWidth', { configurable: true, get: () => 3 });
    Object.defineProperty(HTMLImageElement.prototype, 'naturalHeight', { configurable: true, get: () => 2 });
  });

  afterEach(() => vi.restoreAllMocks());

  it('is read weight by weight, with arrow keys', async () => {
    const root = attentionRoot();
    enhance(root, scripts as never);
    await settle();
    const plot = root.querySelector<SVGElement>('.rfnb-Matrix-plot')!;
    const said = () => root.querySelector('.rfnb-Matrix [role="status"]')?.textContent;
    expect(root.querySelector<HTMLElement>('[data-rfnb-still]')?.hidden).toBe(true);
    plot.focus();
    expect(said()).toContain('out a → in 0.00 s: ≈ 0.5');
    ['ArrowDown', 'ArrowRight'].forEach(key => press(plot, key));
    expect(said()).toContain('out <b> → in 0.01 s: ≈ 0');
    press(plot, 'Enter');
    press(plot, 'Home');
    press(plot, 'ArrowUp');
    expect(said()).toContain('out <b> → in 0.00 s: ≈ 0.25');
    press(plot, 'Escape');
    expect(said()).toContain('out a → in 0.00 s');
    expect(root.querySelector('.rfnb-Strip')?.childElementCount).toBe(0); // columns without words
    const table = root.querySelector('details')!;
    table.open = true;
    table.dispatchEvent(new Event('toggle'));
    const lines = [...table.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.textContent));
    expect(lines.map(line => line.slice(0, 3))).toEqual([
      ['', '0.00 s', '0.01 s'],
      ['a', '0.5', '0'],
      ['<b>', '0.25', '0']
    ]);
  });

  it.each([
    [
      [
        [0, 0],
        [0, 1]
      ],
      'head 0'
    ],
    [
      [
        [0, 0],
        [1, 0]
      ],
      'enc.0'
    ],
    [
      [
        [0, 0],
        [1, 0],
        [0, 1]
      ],
      'enc.0, head 0'
    ],
    [[[0, 0]], '']
  ])('tells a head from the others: %j', async (numbers, title) => {
    const root = attentionRoot();
    const heads = numbers.map(([layer, head]) => ({ ...scripts.heads[0], layer, head, name: `enc.${layer}` }));
    enhance(root, { ...scripts, heads } as never);
    await settle();
    expect(root.querySelector('.rfnb-Matrix b')?.textContent).toBe(title);
  });

  it.each([
    [[0, 0], 0],
    [[0, 1], 1],
    [[1, 1], 2]
  ])('hatches padding %j', async (padding, boxes) => {
    const root = attentionRoot();
    const shape = [2 - padding[0], 3 - padding[1]];
    enhance(root, { ...scripts, shape, padding } as never);
    await settle();
    expect(root.querySelectorAll('.rfnb-Matrix-padding')).toHaveLength(boxes);
  });

  it('shows the head that is chosen, with what is wrong with it', async () => {
    const root = attentionRoot();
    const dispose = enhance(root, scripts as never);
    await settle();
    const heads = root.querySelectorAll<HTMLElement>('img[data-rfnb-head]');
    heads[0].focus();
    press(heads[0], 'ArrowRight');
    expect(document.activeElement).toBe(heads[1]);
    press(heads[1], 'Enter');
    await settle();
    expect(heads[1].getAttribute('aria-pressed')).toBe('true');
    expect(root.querySelector('.rfnb-Flag')?.textContent).toBe('NaN <i>');
    const pathButton = root.querySelector<HTMLElement>('.rfnb-Tools > button')!;
    expect([root.querySelector('.rfnb-Matrix-path'), pathButton.hidden]).toEqual([null, true]); // two rows are no path
    press(heads[1], 'ArrowLeft');
    press(heads[0], 'Enter');
    await settle();
    expect(root.querySelector('.rfnb-Matrix-path')?.getAttribute('points')?.split(' ')).toHaveLength(2);
    pathButton.click();
    expect(root.querySelector('.rfnb-Matrix-path')).toBeNull();
    dispose();
    expect(root.querySelector('.rfnb-Matrix')).toBeNull();
    expect(root.querySelector<HTMLElement>('[data-rfnb-still]')?.hidden).toBe(false);
  });

  it('has its colours by the row, the picture, all pictures or 1, with the weight of the strongest one', async () => {
    const root = attentionRoot();
    const painted: number[][] = [];
    globalThis.ImageData = class {
      constructor(data: Uint8ClampedArray) {
        painted.push([...data].filter((_, i) => i % 4 === 0));
      }
    } as never;
    const heads = [scripts.heads[0], { ...scripts.heads[1], scale: 0.8 }];
    enhance(root, { ...scripts, heads } as never);
    await settle();
    const choices = [...root.querySelectorAll<HTMLElement>('.rfnb-Scales button')];
    const told = choices.map(choice => {
      choice.click();
      return root.querySelector('.rfnb-Legend')?.textContent;
    });
    expect(told).toEqual(['0  maximum of the row', '0  0.5', '0  0.8', '0  1', '0  0.5 (√)']);
    expect(choices.map(choice => choice.getAttribute('aria-pressed')).pop()).toBe('true');
    const last = painted.slice(-5);
    expect(last[0]).toEqual(pictures.AAAA); // each row has a weight of 0.5
    expect(last[3][0]).toBe(128); // a weight of 0.5 is half of 1
  });

  it('plays the sound from the column that is chosen, and goes to a column in a sound that is still', async () => {
    const root = attentionRoot(`<image data-rfnb-spectrum="" href="${PNG}CCCC"/>`);
    const audio = document.createElement('audio');
    audio.src = 'data:audio/wav;base64,';
    const [play, pause] = [vi.fn(), vi.fn()];
    const isPaused = vi.fn(() => true);
    Object.defineProperties(audio, {
      duration: { value: 6 },
      currentTime: { value: 0, writable: true },
      paused: { get: isPaused },
      play: { value: play },
      pause: { value: pause }
    });
    root.append(audio);
    const dispose = enhance(root, scripts as never);
    await settle();
    const plot = root.querySelector<SVGElement>('.rfnb-Matrix-plot')!;
    expect(plot.querySelector('image')?.getAttribute('href')).toBe(`${PNG}CCCC`);
    plot.focus();
    press(plot, 'ArrowRight');
    expect([audio.currentTime, play.mock.calls.length]).toEqual([2, 0]);
    press(plot, 'Enter');
    expect([audio.currentTime, play.mock.calls.length]).toEqual([2, 1]);
    isPaused.mockReturnValue(false);
    press(plot, 'ArrowRight');
    expect(audio.currentTime).toBe(2);
    press(plot, 'Escape');
    expect(pause).toHaveBeenCalledOnce();
    isPaused.mockReturnValue(true);
    const left = Number(/\((.*),/.exec(plot.querySelector('g')!.getAttribute('transform')!)![1]);
    const width = Number(plot.querySelector('image')!.getAttribute('width')) / 3;
    plot.dispatchEvent(new MouseEvent('click', { clientX: left + 2.5 * width, clientY: 20 })); // in the spectrogram
    expect([audio.currentTime, play.mock.calls.length]).toEqual([4, 2]);
    expect(root.querySelector('[data-locked="true"]')).toBeNull();
    audio.dispatchEvent(new Event('seeked'));
    expect(Number(plot.querySelector('.rfnb-Matrix-heard')?.getAttribute('x'))).toBeCloseTo(2 * width - 1);
    dispose();
  });

  it('stays as it is if pictures cannot be read', async () => {
    const root = attentionRoot();
    vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
    enhance(root, scripts as never);
    await settle();
    expect(root.querySelectorAll('img')).toHaveLength(3);
  });
});

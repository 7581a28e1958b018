import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

import widget, { enhancePage } from '../../src/entry/views';
import { bestPath, clearPath } from '../../src/pictures/attention/alignment';
import { decode, coloursOf } from '../../src/pictures/attention/weights';
import { enhance } from '../../src/pictures/enhance';
import { pathOf, place } from '../../src/pictures/graph/layout';
import { find } from '../../src/pictures/graph/search';
import { fragment, svgOf } from '../../src/pictures/graph/svg';
import type { GraphScripts, Point } from '../../src/pictures/graph/types';
import { settle } from '../fake_kernel';

const press = (element: Element | null, key: string) =>
  element?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
const highlighted = () => document.head.querySelector('style[data-rfnb-dims]')?.textContent ?? '';
const rootOf = (html: string) => {
  const root = document.createElement('div');
  root.innerHTML = html;
  document.body.append(root);
  return root;
};

afterEach(() => {
  document.body.replaceChildren();
  document.head.replaceChildren();
});

describe('dims', () => {
  const pill = (serial: string) => `<span class="rfnb-dim" data-rfnb-dim="${serial}">time:5</span>`;

  it('are highlighted while pointed at or focused, wherever they are on the page', () => {
    const root = rootOf(pill('7') + pill('8'));
    enhance(root, null);
    expect(highlighted()).toBe('');
    const [first, second] = root.querySelectorAll<HTMLElement>('span');
    first.dispatchEvent(new Event('pointerover', { bubbles: true }));
    expect(highlighted()).toContain('[data-rfnb-dim~="7"]');
    second.focus();
    expect(highlighted()).toContain('[data-rfnb-dim~="8"]');
    expect(highlighted()).not.toContain('"7"');
    second.blur();
    expect(highlighted()).toBe('');
  });

  it('are pinned by a click or Enter, in all views at once, until Escape', () => {
    const [one, two] = [rootOf(pill('7')), rootOf(pill('7') + pill('8'))];
    [one, two].forEach(root => enhance(root, { kind: 'tensor' }));
    one.querySelector('span')?.click();
    expect(two.querySelector('span')?.getAttribute('aria-pressed')).toBe('true');
    press(two.querySelectorAll('span')[1], 'Enter');
    expect(highlighted()).toMatch(/"8".*solid/);
    expect(one.querySelector('span')?.getAttribute('aria-pressed')).toBe('false');
    press(one.querySelector('span'), 'Escape');
    expect(highlighted()).toBe('');
    two.querySelector('span')?.click();
    two.querySelector('span')?.click();
    expect(highlighted()).not.toContain('solid');
  });

  it('are one stop of the tabulator in each view; what is folded away is no stop', () => {
    const root = rootOf(`<details><summary>x</summary>${pill('1')}</details>${pill('2')}${pill('3')}`);
    enhance(root, null);
    const stops = () => [...root.querySelectorAll<HTMLElement>('.rfnb-dim')].map(element => element.tabIndex);
    expect(stops()).toEqual([-1, 0, -1]);
    press(root.querySelectorAll('.rfnb-dim')[1], 'ArrowRight');
    expect(document.activeElement?.getAttribute('data-rfnb-dim')).toBe('3');
    expect(stops()).toEqual([-1, -1, 0]);
    root.querySelector('details')!.open = true;
    root.querySelector('details')!.dispatchEvent(new Event('toggle'));
    expect(stops()).toEqual([0, -1, -1]);
  });

  it('in the head of what folds do not fold it when clicked', () => {
    const root = rootOf(`<details><summary>${pill('1')}</summary></details>`);
    enhance(root, null);
    const click = new MouseEvent('click', { bubbles: true, cancelable: true });
    root.querySelector('span')?.dispatchEvent(click);
    expect(click.defaultPrevented).toBe(true);
  });

  it('cannot smuggle a rule into the style sheet', () => {
    const root = rootOf(`<span class="rfnb-dim" data-rfnb-dim='1"]{} body{display:none} [x="'>x</span>`);
    enhance(root, null);
    root.querySelector('span')?.click();
    expect(highlighted()).not.toContain('body');
  });

  it('are left alone when the view goes', () => {
    const root = rootOf(pill('7'));
    const dispose = enhance(root, null);
    dispose();
    root.querySelector('span')?.click();
    expect(highlighted()).toBe('');
  });
});

describe('a drawing', () => {
  it.each([
    ['<script>alert(1)</script>', ''],
    ['<foreignObject><p xmlns="http://www.w3.org/1999/xhtml">x</p></foreignObject>', ''],
    ['<a href="javascript:alert(1)"><text>x</text></a>', ''],
    ['<image href="http://example.org/x.png"/>', ''],
    ['<style>@import "x"</style>', ''],
    ['<set attributeName="href" to="x"/>', ''],
    ['<rect onload="alert(1)" ONCLICK="alert(1)"/>', '<rect/>'],
    ['<rect fill="url(http://example.org)" stroke="red"/>', '<rect stroke="red"/>'],
    ['<rect style="fill:url(data:x)"/>', '<rect/>'],
    [
      '<rect xlink:href="x" xmlns:xlink="http://www.w3.org/1999/xlink"/>',
      '<rect xmlns:xlink="http://www.w3.org/1999/xlink"/>'
    ],
    ['<path d="M0,0" marker-end="url(#tip)"/>', '<path d="M0,0" marker-end="url(#p-tip)"/>'],
    ['<marker id="tip"/>', '<marker id="p-tip"/>']
  ])('keeps shapes and words of %s', (text, kept) => {
    const made = fragment(text, 'p-').map(element => element.outerHTML.replace(/ xmlns="[^"]*svg"/, ''));
    expect(made.join('').replace(/><\/\w+>/g, '/>')).toBe(kept);
  });

  it('that is broken is none', () => {
    expect(svgOf('<svg xmlns="http://www.w3.org/2000/svg"><g></svg>', '')).toBeNull();
    expect(svgOf('<html/>', '')).toBeNull();
  });
});

const card = (id: string, x: number, y: number, inside = '') =>
  `<g data-node="${id}" transform="translate(${x},${y})"><rect width="100" height="40"/><text>${id}</text>${inside}</g>`;
const line = (id: number, d: string) => `<g data-edge="${id}"><path d="${d}"/></g>`;
const node = (id: string, x: number, y: number, rank: number, more = {}) => ({
  id,
  name: id,
  text: `${id}1 Linear`,
  x,
  y,
  w: 100,
  h: 40,
  rank,
  column: 0,
  body: null,
  ...more // prettier-ignore
});
const edge = (id: number, from: string, to: string, points: Point[], shape: 'smooth' | 'round' = 'smooth') => ({
  id,
  from,
  to,
  shape,
  points // prettier-ignore
});

/** a → b → c, where b unfolds to d → e, and f is in a column of its own. */
function graph(): GraphScripts {
  const open = { w: 128, h: 160, svg: '<rect width="128" height="160"/><text>b</text>' };
  const outer = [node('a', 0, 0, 0), node('b', 0, 60, 1, { body: 'b1', other: open }), node('c', 0, 120, 2)];
  return {
    root: 'b0',
    frame: { pad: 14, head: 30 },
    bodies: {
      b0: {
        width: 260,
        height: 160,
        columns: [[0, 130], [130, 260]], // prettier-ignore
        svg: '',
        nodes: [...outer, { ...node('f', 140, 0, 0), column: 1 }],
        edges: [
          edge(0, 'a', 'b', [[50, 40], [50, 60]]), // prettier-ignore
          edge(1, 'b', 'c', [[50, 100], [50, 120]]), // prettier-ignore
          edge(2, 'c', 'f', [[50, 160], [50, 170], [120, 170], [120, -10], [190, -10], [190, 0]], 'round') // prettier-ignore
        ]
      },
      b1: {
        width: 100,
        height: 100,
        columns: [[0, 100]],
        svg: card('d', 0, 0) + card('e', 0, 60) + line(0, 'M50,40L50,60'),
        nodes: [node('d', 0, 0, 0), node('e', 0, 60, 1)],
        edges: [edge(0, 'd', 'e', [[50, 40], [50, 60]])] // prettier-ignore
      }
    }
  };
}

function graphRoot(): HTMLElement {
  const inside = card('a', 0, 0) + card('b', 0, 60) + card('c', 0, 120) + card('f', 140, 0);
  const lines = [0, 1, 2].map(id => line(id, 'M0,0')).join('');
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="260" height="160">${inside}${lines}</svg>`;
  return rootOf(`<div><img alt="the graph" src="data:image/svg+xml;base64,${btoa(svg)}"></div>`);
}

describe('the layout of a graph', () => {
  const grown = (size: { w: number; h: number }) => place(graph().bodies.b0, spec => (spec.id === 'b' ? size : spec));

  it('stays as it was drawn while nothing changes its size', () => {
    const body = graph().bodies.b0;
    const placed = grown({ w: 100, h: 40 });
    expect([placed.width, placed.height]).toEqual([260, 160]);
    body.nodes.forEach(({ id, x, y }) => expect(placed.nodes.get(id)).toMatchObject({ x, y }));
    body.edges.forEach(({ id, points }) => expect(placed.edges.get(id)).toEqual(points));
  });

  it('pushes what is below down and the next column to the right, and keeps the middle', () => {
    const placed = grown({ w: 200, h: 140 });
    expect(placed.nodes.get('a')).toMatchObject({ x: 50, y: 0 });
    expect(placed.nodes.get('b')).toMatchObject({ x: 0, y: 60 });
    expect(placed.nodes.get('c')).toMatchObject({ x: 50, y: 220 });
    expect(placed.nodes.get('f')).toMatchObject({ x: 240, y: 0 });
    expect([placed.width, placed.height]).toEqual([360, 260]);
    expect(placed.edges.get(0)).toEqual([[100, 40], [100, 60]]); // prettier-ignore
    expect(placed.edges.get(1)).toEqual([[100, 200], [100, 220]]); // prettier-ignore
    expect(placed.edges.get(2)).toEqual([[100, 260], [100, 270], [220, 270], [220, -10], [290, -10], [290, 0]]); // prettier-ignore
  });

  it('leads lines around what has grown beside them', () => {
    const body = graph().bodies.b0;
    const past: [number, number][] = [[105, 40], [105, 120]]; // prettier-ignore
    body.edges = [edge(3, 'a', 'c', past)];
    const placed = place(body, spec => (spec.id === 'b' ? { w: 300, h: 140 } : spec));
    const b = placed.nodes.get('b')!;
    const points = placed.edges.get(3)!;
    const inside = points.filter(([, y]) => b.y <= y && y <= b.y + b.h);
    expect(inside.map(([, y]) => y)).toEqual([b.y, b.y + b.h]);
    inside.forEach(([x]) => expect(x).toBeGreaterThan(b.x + b.w));
    expect(points.map(([, y]) => y)).toEqual([40, 60, 200, 220]);
    expect(placed.width).toBeGreaterThanOrEqual(inside[0][0]);
  });

  it('leads lines down beside what has grown in the same row', () => {
    const body = graph().bodies.b0;
    body.nodes[1].x = -150;
    body.nodes.push({ ...node('g', 0, 60, 1), h: 10 }); // ends above the lower end of its row
    body.edges = [edge(3, 'g', 'c', [[50, 70], [50, 120]])]; // prettier-ignore
    const placed = place(body, spec => (spec.id === 'b' ? { w: 300, h: 140 } : spec));
    const [b, points] = [placed.nodes.get('b')!, placed.edges.get(3)!];
    expect(points.map(([, y]) => y)).toEqual([70, 200, 220]);
    expect(points[0][0]).toBe(points[1][0]);
    expect(points[1][0]).toBeGreaterThan(b.x + b.w);
  });

  it('keeps upright what was upright', () => {
    const body = graph().bodies.b0;
    body.edges = [edge(3, 'none', 'none', [[0, 50], [95, 50], [95, 80], [0, 80]], 'round')]; // prettier-ignore
    const placed = place(body, spec => (spec.id === 'b' ? { w: 200, h: 140 } : spec));
    const [, [x], [u]] = placed.edges.get(3)!;
    expect([x, u]).toEqual([190, 190]);
  });

  it('draws lines with round corners, and curves', () => {
    expect(pathOf([[0, 0], [0, 20], [40, 20]], 'round')).toBe('M0,0L0,12Q0,20 8,20L40,20'); // prettier-ignore
    expect(pathOf([[0, 0], [0, 10], [20, 30]], 'smooth')).toBe('M0,0L0,10C0,20 20,20 20,30'); // prettier-ignore
  });
});

describe('a graph', () => {
  const at = (root: Element, id: string) => root.querySelector(`[data-node="${id}"]`);

  it('is drawn in the page, with the words of the image', () => {
    const root = graphRoot();
    const dispose = enhance(root, { kind: 'graph', ...graph() } as never);
    expect(root.querySelector('img')).toBeNull();
    expect(root.querySelector('[role="group"]')?.getAttribute('aria-label')).toBe('the graph');
    expect(at(root, 'b')?.getAttribute('aria-expanded')).toBe('false');
    dispose();
    expect(root.querySelector('img')?.alt).toBe('the graph');
  });

  it('unfolds and folds in place by keyboard, and stays walkable', () => {
    const root = graphRoot();
    enhance(root, { kind: 'graph', ...graph() } as never);
    (at(root, 'a') as SVGElement).focus();
    press(at(root, 'a'), 'ArrowDown');
    expect(document.activeElement).toBe(at(root, 'b'));
    press(at(root, 'b'), 'Enter');
    expect(at(root, 'b')?.getAttribute('aria-expanded')).toBe('true');
    expect(at(root, 'c')?.getAttribute('transform')).toBe('translate(14,224)');
    expect(root.querySelector('svg')?.getAttribute('viewBox')).toBe('0 0 288 264');
    const walked = ['d', 'e', 'c', 'f'].map(id => {
      press(document.activeElement, 'ArrowDown');
      return document.activeElement === at(root, id);
    });
    expect(walked).toEqual([true, true, true, true]);
    press(document.activeElement, 'ArrowUp');
    press(document.activeElement, 'ArrowUp');
    expect(document.activeElement).toBe(at(root, 'e'));
    press(at(root, 'b'), ' ');
    expect(at(root, 'd')).toBeNull();
    expect(at(root, 'c')?.getAttribute('transform')).toBe('translate(0,120)');
  });

  it('finds nodes, also those that are folded away', () => {
    const root = graphRoot();
    enhance(root, { kind: 'graph', ...graph() } as never);
    const box = root.querySelector('input')!;
    box.focus();
    box.value = 'E1 linear';
    box.dispatchEvent(new Event('input'));
    expect(at(root, 'e')).toBeNull();
    press(box, 'Enter');
    expect(at(root, 'e')?.querySelector('.rfnb-Graph-ring')).not.toBeNull();
    expect(root.querySelector('.rfnb-Facts')?.textContent).toContain('e1 Linear');
    expect(document.activeElement).toBe(box);
    expect(find(graph(), 'linear').map(path => path.join('/'))).toEqual(['a', 'b', 'b/d', 'b/e', 'c', 'f']);
    expect(find(graph(), ' ')).toEqual([]);
  });

  it('tells hostile names as words', () => {
    const scripts = graph();
    scripts.bodies.b0.nodes[0].name = scripts.bodies.b0.nodes[0].text = '<img src=x onerror=alert(1)>';
    const root = graphRoot();
    enhance(root, { kind: 'graph', ...scripts } as never);
    (at(root, 'a') as SVGElement).focus();
    expect(root.querySelector('.rfnb-Facts')?.textContent).toContain('<img');
    expect(root.querySelector('.rfnb-Facts img')).toBeNull();
  });

  it('stays an image if its parts are missing', () => {
    const said = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const root = graphRoot();
    enhance(root, { kind: 'graph' });
    enhance(root, { kind: 'graph', root: 'b0', bodies: { b0: {} } } as never);
    expect(root.querySelector('img')).not.toBeNull();
    expect(said).toHaveBeenCalledOnce();
    said.mockRestore();
  });
});

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

  function attentionRoot(): HTMLElement {
    vi.spyOn(Image.prototype, 'decode' as never).mockImplementation((() => Promise.resolve()) as never);
    let drawn: number[] = [];
    const context = {
      drawImage: (image: HTMLImageElement) => (drawn = pictures[image.src.slice(-4)]),
      getImageData: () => ({ width: 3, height: 2, data: new Uint8ClampedArray(drawn.flatMap(n => [n, n, n, 255])) }),
      putImageData: () => undefined
    };
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never);
    vi.spyOn(HTMLCanvasElement.prototype, 'toDataURL').mockReturnValue(PNG);
    const svg = `<svg xmlns="http://www.w3.org/2000/svg"><image data-rfnb-head="0,0" data-rfnb-large="" href="${PNG}AAAA"/></svg>`;
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
    const pathButton = root.querySelector<HTMLElement>('.rfnb-Tools button')!;
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

  it('stays as it is if pictures cannot be read', async () => {
    const root = attentionRoot();
    vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
    enhance(root, scripts as never);
    await settle();
    expect(root.querySelectorAll('img')).toHaveLength(3);
  });
});

describe('a view as a widget or a page', () => {
  it('is the same HTML with the same scripts', () => {
    const el = document.createElement('div');
    document.body.append(el);
    const html = '<span class="rfnb-dim" data-rfnb-dim="3">x</span>';
    const model = { get: (name: string) => (name === 'html' ? html : { kind: 'tensor' }) };
    const close = widget.render({ model: model as never, el });
    expect(el.querySelector('span')?.getAttribute('role')).toBe('button');
    close();
    document.body.innerHTML = `<div id="rfnb-view">${html}</div><script id="rfnb-scripts">{"kind":"tensor"}</script>`;
    enhancePage(document);
    expect(document.querySelector('span')?.getAttribute('role')).toBe('button');
  });
});

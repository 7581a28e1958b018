import { describe, expect, it, vi } from 'vitest';

import { enhance } from '../../src/pictures/enhance';
import { pathOf, place } from '../../src/pictures/graph/layout';
import { find } from '../../src/pictures/graph/search';
import { fragment, svgOf } from '../../src/pictures/graph/svg';
import type { GraphScripts, Point } from '../../src/pictures/graph/types';
import { press, rootOf } from '../page';

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

import { afterEach, describe, expect, it, vi } from 'vitest';

import { familyOf, findLabels, readTree, sumOf, textOf } from '../../src/pictures/beam/nodes';
import { enhance } from '../../src/pictures/enhance';
import type { BeamColumn, BeamScripts } from '../../src/schema';
import { EVIL } from '../examples';
import { press, rootOf } from '../page';

const [LIVES, DIES, COPY, PRUNED, ENDS, BEST, REFERENCE] = [0, 1, 2, 3, 4, 8, 16];

/** Of three steps with a beam of two; the reference falls out at step 1. */
function scripts(change: Partial<BeamScripts> = {}): BeamScripts {
  const column = (step: number, more: Partial<BeamColumn>): BeamColumn => ({
    step,
    skipped: 0,
    rows: [0, 1, 2],
    parents: [-1, -1, -1],
    labels: [0, 1, 2],
    adds: [0, 1, 2],
    ranks: [1, 2, 3],
    scores: [-0.5, -1, -2],
    parts: [
      [-0.25, -0.5, -1],
      [-0.25, -0.5, '-inf']
    ],
    marks: [LIVES | BEST, LIVES | REFERENCE, PRUNED],
    ...more
  });
  return {
    kind: 'beam',
    name: 'laugh',
    beam: 2,
    parts: ['lm', EVIL],
    texts: ['the', ' cat', EVIL, 'ch', ''],
    columns: [
      column(0, {}),
      column(1, {
        parents: [0, 1, 1],
        labels: [3, 4, 1],
        adds: [3, 4, 1],
        joined: [1, -1, -1],
        marks: [8, DIES, PRUNED]
      }),
      column(2, { parents: [0, 0, 0], adds: [4, 3, 3], marks: [COPY | BEST, LIVES | ENDS, PRUNED] })
    ],
    fall: { step: 1, row: 2, words: 'fell out at step 1' },
    ...change
  };
}

function shown(change: Partial<BeamScripts> = {}): HTMLElement {
  const root = rootOf('<div data-rfnb-tree><img></div><div data-rfnb-still>legend</div>');
  undo = enhance(root, scripts(change) as never);
  return root;
}

let undo = () => undefined as void;
const said = (root: HTMLElement) => root.querySelector('.rfnb-Tree-facts')?.textContent ?? '';
const nodes = (root: HTMLElement, which: string) =>
  [...root.querySelectorAll<SVGElement>(`[data-node]${which}`)].map(({ dataset }) => dataset.node).sort();
const at = (root: HTMLElement, node: string) => root.querySelector(`[data-node="${node}"]`)!;
const click = (element: Element | null) => element?.dispatchEvent(new MouseEvent('click', { bubbles: true }));

describe('nodes of a tree', () => {
  const columns = readTree(scripts());
  const node = (step: number, row: number) => columns[step].nodes[row];

  it('have a text, of what their labels add', () => {
    expect(textOf(node(2, 1), columns)).toBe('thechch');
    expect(textOf(node(2, 0), columns)).toBe('thech');
  });

  it('have a family: what they came from, also by joining, and what came of them', () => {
    const family = (step: number, row: number) => [...familyOf(node(step, row))].map(n => `${n.step}:${n.row}`).sort();
    expect(family(1, 0)).toEqual(['0:0', '0:1', '1:0', '2:0', '2:1', '2:2']);
    expect(family(0, 0)).toEqual(['0:0', '1:0', '2:0', '2:1', '2:2']);
    expect(family(1, 1)).toEqual(['0:1', '1:1']);
  });

  it('have sums of scores, unless steps are left out', () => {
    expect(sumOf(node(2, 1), 0, columns)).toBe(-1);
    expect(sumOf(node(2, 2), 1, columns)).toBe('-inf');
    const [first, second, third] = scripts().columns;
    const torn = readTree(scripts({ columns: [first, { ...second, step: 5, skipped: 4 }, { ...third, step: 6 }] }));
    expect(sumOf(torn[2].nodes[1], 0, torn)).toBeNull();
    expect(textOf(torn[2].nodes[1], torn)).toBe('the … chch');
  });

  it('are found by their labels', () => {
    expect(findLabels(columns, ' CAT').map(({ step, row }) => [step, row])).toEqual([
      [0, 1],
      [1, 2],
      [2, 1]
    ]);
    expect(findLabels(columns, ' ')).toEqual([]);
  });
});

describe('a live tree', () => {
  afterEach(() => vi.restoreAllMocks());

  it('stands in the place of the picture, and goes', () => {
    const root = shown();
    expect(root.querySelector('img')).toBeNull();
    expect(root.querySelector<HTMLElement>('[data-rfnb-still]')?.hidden).toBe(true);
    undo();
    expect(root.innerHTML).toBe(rootOf('<div data-rfnb-tree><img></div><div data-rfnb-still>legend</div>').innerHTML);
  });

  it('tells rank, score, parts and marks of the node that is pointed at', () => {
    const root = shown();
    at(root, '0:1').dispatchEvent(new MouseEvent('pointerover', { bubbles: true }));
    expect(said(root)).toContain('step 0 ·  cat · rank 2 · score −1 (0.5 below the best) · lm −0.5 (so far −0.5)');
    expect(said(root)).toContain('beginning of the reference');
    at(root, '2:1').dispatchEvent(new MouseEvent('pointerover', { bubbles: true }));
    expect(said(root)).toMatch(/▣ ends here.*text so far: thechch/);
    at(root, '1:2').dispatchEvent(new MouseEvent('pointerover', { bubbles: true }));
    expect(said(root)).toContain('✂ fell out at step 1');
    root.querySelector('.rfnb-Tree-plot')!.dispatchEvent(new MouseEvent('pointerleave'));
    expect(said(root)).toContain('Point at a node');
  });

  it('highlights the family of a node that is clicked, until it is clicked again', () => {
    const root = shown();
    click(at(root, '1:1'));
    expect(nodes(root, '[data-family=true]')).toEqual(['0:1', '1:1']);
    expect(nodes(root, '[data-chosen]')).toEqual(['1:1']);
    expect(root.querySelectorAll('.rfnb-Tree-line[data-family=true]')).toHaveLength(1);
    click(at(root, '1:1'));
    expect(root.querySelectorAll('[data-family]')).toHaveLength(0);
  });

  it('opens and closes the pruned candidates of a step', () => {
    const root = shown();
    const [all] = [...root.querySelectorAll<HTMLButtonElement>('.rfnb-Tools button')].slice(-1);
    expect(nodes(root, '[data-state=pruned]')).toEqual(['0:2', '1:2', '2:2']); // a small tree
    all.click();
    expect([nodes(root, '[data-state=pruned]'), all.getAttribute('aria-pressed')]).toEqual([[], 'false']);
    click(at(root, '1:1'));
    expect(nodes(root, '[data-state=pruned]')).toEqual(['1:2']);
    const number = root.querySelector('.rfnb-Tree-head [data-at="1"]');
    expect(number?.getAttribute('aria-expanded')).toBe('true');
    click(number);
    expect(nodes(root, '[data-state=pruned]')).toEqual([]);
    click(root.querySelector('.rfnb-Tree-head [data-at="2"]'));
    expect(nodes(root, '[data-state=pruned]')).toEqual(['2:2']);
  });

  it('is walked by keyboard', () => {
    const root = shown();
    const plot = root.querySelector<SVGElement>('.rfnb-Tree-plot')!;
    plot.focus();
    expect(said(root)).toContain('step 0 · the');
    ['ArrowRight', 'ArrowRight', 'ArrowDown'].forEach(key => press(plot, key));
    expect(said(root)).toContain('step 2 ·  cat · rank 2');
    press(plot, 'ArrowLeft');
    expect(said(root)).toContain('step 1 · ch · rank 1');
    press(plot, 'Enter');
    expect(nodes(root, '[data-chosen]')).toEqual(['1:0']);
    press(plot, 'Escape');
    expect(nodes(root, '[data-chosen]')).toEqual([]);
    ['ArrowDown', 'ArrowDown', 'p'].forEach(key => press(plot, key));
    expect(nodes(root, '[data-state=pruned]')).toEqual(['0:2', '2:2']);
    press(plot, 'Enter'); // the ring went to the parent of the candidate that is gone
    expect(nodes(root, '[data-chosen]')).toEqual(['0:1']);
  });

  it('finds labels, also among candidates that are not shown', () => {
    const root = shown();
    root.querySelectorAll<HTMLButtonElement>('.rfnb-Tools button')[2].click();
    const field = root.querySelector<HTMLInputElement>('input[type=search]')!;
    field.value = 'script';
    field.dispatchEvent(new Event('input'));
    expect(root.querySelector('.rfnb-Search-count')?.textContent).toBe('2');
    press(field, 'Enter');
    expect(nodes(root, '[data-match]')).toEqual(['0:2']);
    expect(said(root)).toContain(`step 0 · ${EVIL}`);
  });

  it('has a table of all nodes, made when it is opened', () => {
    const root = shown();
    const table = root.querySelector<HTMLDetailsElement>('.rfnb-Tree-table')!;
    expect(table.querySelector('table')).toBeNull();
    table.open = true;
    table.dispatchEvent(new Event('toggle'));
    const rows = [...table.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent));
    expect(rows).toHaveLength(9);
    expect(rows[4]).toEqual(['1', '2', '', '−1', '−0.5', '−0.5', 'rank 2', '']);
    expect(root.querySelector('script')).toBeNull();
  });

  it('draws only what is near to what is visible', () => {
    vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(300);
    const [first, second] = scripts().columns;
    const columns = [first, ...Array.from({ length: 199 }, (_, i) => ({ ...second, step: i + 1 }))];
    const root = shown({ columns });
    const drawn = () => root.querySelectorAll('.rfnb-Tree-column').length;
    expect(drawn()).toBeLessThan(20);
    const plot = root.querySelector<SVGElement>('.rfnb-Tree-plot')!;
    plot.focus();
    press(plot, 'End');
    expect(at(root, '199:0')).not.toBeNull();
    expect(drawn()).toBeLessThan(20);
  });

  it('explains the marks that occur', () => {
    const legend = (root: HTMLElement) => root.querySelector('.rfnb-Tree-legend')?.textContent;
    expect(legend(shown())).toMatch(/best.*pruned.*▣ ends.*· had ended.*joined.*reference.*✂/);
    const [first] = scripts().columns;
    const plain = legend(shown({ columns: [{ ...first, marks: [LIVES, LIVES, LIVES] }], fall: null }));
    expect(plain).toMatch(/^ score, from the worst to the best of the step the chosen node, /);
  });
});

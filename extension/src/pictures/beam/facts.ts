import { formatNumber } from '../../numbers';
import type { BeamScripts } from '../../schema';
import type { Words } from '../../words';
import { make } from '../make';
import { sumOf, textOf, TreeColumn, TreeNode } from './nodes';
import { written } from './column';

/** What is to be known of a node: its label, rank, score and parts, its marks in words, and the text so far. */
export function tell(
  node: TreeNode | null,
  chosen: TreeNode | null,
  columns: TreeColumn[],
  scripts: BeamScripts,
  words: Words
): Node[] {
  if (!node) {
    const hint = words.__(
      'Point at a node or move with the arrow keys. A click or Enter highlights what it came from and what came of it, and shows the pruned candidates of its step.'
    );
    return [make('div', {}, hint)];
  }
  const { label, step, rank, score } = node;
  const column = columns[node.at];
  const below = typeof score === 'number' ? column.high - score : 0;
  const gap = below > 0 ? ` (${words.__('%1 below the best', formatNumber(below))})` : '';
  const parts = scripts.parts.map((name, part) => {
    const sum = sumOf(node, part, columns);
    const soFar = sum === null ? '' : ` (${words.__('so far %1', formatNumber(sum))})`;
    return `${name} ${formatNumber(node.parts[part])}${soFar}`;
  });
  const facts = [words.__('rank %1', rank), `${words.__('score %1', formatNumber(score))}${gap}`, ...parts];
  const text = textOf(node, columns) || words.__('(no labels)');
  const isChosen = node === chosen;
  return [
    make('div', {}, `${words.__('step %1', step)} · `, named(label), ` · ${facts.join(' · ')}`),
    make(
      'div',
      {},
      [...statesOf(node, scripts, words), isChosen ? words.__('chosen; Escape ends it') : '']
        .filter(Boolean)
        .join(' · ')
    ),
    make('div', {}, `${words.__('text so far')}: `, named(text))
  ];
}

/** The marks of a node in words. */
function statesOf(node: TreeNode, { fall }: BeamScripts, words: Words): string[] {
  const isFall = node.step === fall?.step && node.row === fall.row;
  const marks: [boolean, string][] = [
    [node.best, words.__('on the way to the best hypothesis')],
    [node.reference, words.__('beginning of the reference')],
    [isFall, `✂ ${fall?.words ?? ''}`],
    [node.state === 'pruned', words.__('pruned: found no place in the beam')],
    [written(node) === '·', words.__('· had ended before')],
    [node.state === 'dies', words.__('nothing that was left at the end extends it')],
    [node.ends, words.__('▣ ends here')],
    [node.joined !== null, words.__('two hypotheses with the same labels joined here')]
  ];
  return marks.filter(([applies]) => applies).map(([, words]) => words);
}

/** What the marks mean that occur in the tree. */
export function legendOf(columns: TreeColumn[], { fall, living }: BeamScripts, words: Words): HTMLElement {
  const nodes = columns.flatMap(column => column.nodes);
  const has = (test: (node: TreeNode) => boolean) => nodes.some(test);
  const skipped = columns.reduce((sum, column) => sum + column.skipped, 0);
  const inBeam = has(({ state }) => state === 'lives' || state === 'dies');
  const items: [boolean, string, string, string][] = [
    [inBeam, 'shade', '', words.__('score, from the worst to the best of the step')],
    [has(({ best }) => best), 'best', '', words.__('the best hypothesis')],
    [has(({ state }) => state === 'pruned'), 'pruned', '', words.__('pruned: found no place in the beam')],
    [has(({ ends }) => ends), '', '▣', words.__('ends here')],
    [has(node => written(node) === '·'), '', '·', words.__('had ended before')],
    [living !== undefined, '', '↕', words.__('%1 places go on, those below have ended', living ?? 0)],
    [has(({ joined }) => joined !== null), 'joined', '', words.__('joined: the labels are the same')],
    [has(({ reference }) => reference), 'reference', '', words.__('the reference')],
    [fall !== null, '', '✂', words.__('the reference fell out')],
    [true, 'family', '', words.__('the chosen node, what it came from and what came of it')],
    [skipped > 0, '', '⋯', words._n('%1 step is left out', '%1 steps are left out', skipped, skipped)]
  ];
  const shown = items
    .filter(([occurs]) => occurs)
    .map(([, kind, sign, meaning]) => make('span', {}, make('i', { 'data-kind': kind || null }, sign), ` ${meaning}`));
  return make('div', { class: 'rfnb-Tree-legend' }, ...shown);
}

/** All nodes as rows, for screen readers and for copying. */
export function tableOf(columns: TreeColumn[], { parts, name }: BeamScripts, words: Words): HTMLElement {
  const heads = [words.__('step'), words.__('rank'), words.__('label'), words.__('score'), ...parts];
  const head = [...heads, words.__('extends'), words.__('marks')].map(word => make('th', { scope: 'col' }, word));
  const rows = columns.flatMap(({ nodes }) => nodes).map(node => rowOf(node, words));
  const table = make('table', {}, make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
  const label = words.__('Nodes of the tree of %1', name);
  return make('div', { class: 'rfnb-Tree-rows', tabindex: 0, role: 'region', 'aria-label': label }, table);
}

function rowOf(node: TreeNode, words: Words): HTMLElement {
  const numbers = [node.score, ...node.parts].map(number => make('td', {}, formatNumber(number)));
  const { parent, state } = node;
  const from = parent ? words.__('rank %1', parent.rank) : '';
  const marks: [boolean, string][] = [
    [node.best, words.__('best')],
    [node.reference, words.__('reference')],
    [state === 'pruned', words.__('pruned')],
    [state === 'copy', words.__('had ended')],
    [node.ends, words.__('ends')]
  ];
  const told = marks.filter(([applies]) => applies).map(([, word]) => word);
  return make(
    'tr',
    {},
    make('td', {}, String(node.step)),
    make('td', {}, String(node.rank)),
    make('th', { scope: 'row' }, make('bdi', {}, node.label)),
    ...numbers,
    make('td', {}, from),
    make('td', {}, told.join(', '))
  );
}

function named(text: string): HTMLElement {
  return make('b', {}, make('bdi', {}, text));
}

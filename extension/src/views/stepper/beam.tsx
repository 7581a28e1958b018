import * as React from 'react';

import { formatNumber, stepNumbers } from '../../numbers';
import type { BeamAt, BeamNode, BeamRow, BeamStep } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import { pathTo } from '../../stepper/beam';
import type { StepperState } from '../../stepper/stepper_state';
import { SHAPES } from '../icons';
import { useWords } from '../words';

const ROW = 24;
const GAP = 22;
const HEAD = 18;
/** Distance of the pruned candidates from the beam. */
const FOOT = 6;
/** Room for the pencils of the pruned candidates. */
const PENCIL = 22;
const CHARACTER = 6.7;
const LONGEST = 11;
/** At most this many columns are drawn: the last ones. */
const DRAWN = 60;

type Choose = StepperActions['chooseHypothesis'];

/** The beam of a search: its tree up to this step, and the hypotheses after it; a click chooses one of them. */
export function Beam(props: { state: StepperState; beam: BeamAt; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { state, beam, actions } = props;
  const still = state.still || state.gone;
  const columns = state.tree?.columns.slice(0, beam.step + 1) ?? [];
  return (
    <section className="rfnb-Beam" aria-label={words.__('Beam')}>
      <h3>
        {words.__('Beam')}{' '}
        <span className="rfnb-place">
          {words.__('%1, step %2 of %3', beam.name, beam.step, stepNumbers(beam.steps))}
          {beam.place !== null && ` · ${words.__('one hypothesis')}`}
        </span>
        {beam.hypothesis !== null && (
          <button className="rfnb-Link" type="button" onClick={() => actions.chooseHypothesis(null)}>
            {words.__('all hypotheses')}
          </button>
        )}
      </h3>
      {beam.lost !== null && beam.lost <= beam.step && (
        <div className="rfnb-Beam-note" role="status">
          {words.__('Nothing extends the chosen hypothesis at step %1. All hypotheses are shown.', beam.lost)}
        </div>
      )}
      {columns.length > 0 && columns.length > beam.step && (
        <Tree beam={beam} columns={columns} onChoose={actions.chooseHypothesis} onKeep={still ? null : actions.keep} />
      )}
      {state.asides.keep?.error && (
        <div className="rfnb-Watch-error" role="alert">
          {state.asides.keep.error}
        </div>
      )}
      <Rows beam={beam} still={still} onChoose={actions.chooseHypothesis} />
    </section>
  );
}

interface TreeProps {
  beam: BeamAt;
  columns: readonly BeamStep[];
  onChoose: Choose;
  /** Null if there is no kernel. */
  onKeep: StepperActions['keep'] | null;
}

function Tree(props: TreeProps): JSX.Element {
  const words = useWords();
  const { beam, columns, onChoose, onKeep } = props;
  const frame = React.useRef<HTMLDivElement>(null);
  const first = Math.max(0, columns.length - DRAWN);
  const path =
    beam.place === null ? new Map<number, number>() : pathTo(columns, { step: beam.step, place: beam.place });
  const places = placed(columns);
  const last = columns[columns.length - 1];
  const pruned = onKeep === null ? [] : last.nodes.filter(node => node.state === 'pruned');
  const right = places[places.length - 1].right + (pruned.length > 0 ? PENCIL : 0);
  const left = places[first].x - (first > 0 ? GAP : 2);
  const rows = 1 + Math.max(...columns.slice(first).flatMap(column => column.nodes.map(node => node.row)), 0);
  const height = HEAD + rows * ROW + (rows > beam.beam ? FOOT : 0);
  const visible = columns.length;
  React.useLayoutEffect(() => {
    void frame.current?.scrollTo?.(right, 0); // the newest column is at the right end
  }, [visible, right]);
  return (
    <div className="rfnb-Beam-frame" ref={frame}>
      <svg
        className="rfnb-Beam-tree"
        viewBox={`${left} 0 ${right - left + 4} ${height}`}
        width={right - left + 4}
        height={height}
        role="group"
        aria-label={words.__('Tree of the hypotheses up to step %1; those of this step are in the table', beam.step)}
      >
        {first > 0 && (
          <text x={left + 4} y={HEAD + 14}>
            …
          </text>
        )}
        {columns.slice(first).map((column, i) => (
          <Column
            key={column.step}
            column={column}
            before={i > 0 ? columns[first + i - 1] : null}
            x={places[first + i].x}
            width={places[first + i].right - places[first + i].x}
            beam={beam.beam}
            current={column.step === beam.step}
            chosen={path.get(column.step) ?? null}
            onChoose={onChoose}
          />
        ))}
        {onKeep !== null &&
          pruned.map(node => (
            <Keep
              key={node.row}
              x={right - PENCIL + 5}
              y={topOf(node.row, beam.beam) + 4}
              label={words.__('Keep %1 in the beam after step %2, and continue from there', node.text, beam.step)}
              locked={beam.locked ?? undefined}
              onKeep={() => void onKeep(beam.step, node.row - beam.beam)}
            />
          ))}
      </svg>
    </div>
  );
}

/** The pencil of a pruned candidate. One that the kernel would refuse keeps the focus, does nothing, and says why. */
function Keep(props: {
  x: number;
  y: number;
  label: string;
  /** Why the kernel would refuse it. */
  locked: string | undefined;
  onKeep: () => void;
}): JSX.Element {
  const { x, y, label, locked } = props;
  const onKeep = () => locked === undefined && props.onKeep();
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      onKeep();
    }
  };
  return (
    <g
      className="rfnb-Beam-keep"
      role="button"
      tabIndex={0}
      aria-label={label}
      aria-disabled={locked !== undefined}
      onClick={onKeep}
      onKeyDown={onKey}
    >
      <title>{locked ?? label}</title>
      <rect x={x - 2} y={y - 2} width={16} height={16} rx={3} />
      <g transform={`translate(${x} ${y}) scale(0.5)`}>
        <path d={SHAPES.edit} />
      </g>
    </g>
  );
}

interface ColumnProps {
  column: BeamStep;
  before: BeamStep | null;
  x: number;
  width: number;
  beam: number;
  current: boolean;
  /** The place of the chosen hypothesis, or of its prefix. */
  chosen: number | null;
  onChoose: Choose;
}

/** The nodes of a step and the lines to their parents. Earlier columns are not drawn again in the next step. */
const Column = React.memo(function Column(props: ColumnProps): JSX.Element {
  const words = useWords();
  const { column, before, x, width, beam, current, chosen, onChoose } = props;
  const top = (row: number) => topOf(row, beam);
  const parents = new Map(before?.nodes.filter(node => node.state !== 'pruned').map(node => [node.row, node]));
  const scores = column.nodes.filter(node => node.state !== 'pruned').map(node => node.score);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const about = (node: BeamNode) => [
    ...(node.state !== 'pruned' && high > node.score
      ? [words.__('%1 below the best', formatNumber(high - node.score))]
      : []),
    ...(node.ends ? [words.__('▣: ends here')] : []),
    ...(node.state === 'copy' ? [words.__('·: had ended before')] : []),
    ...(node.state === 'pruned' ? [words.__('pruned: found no place in the beam')] : [])
  ];
  const share = (node: BeamNode) => (high > low ? (node.score - low) / (high - low) : 1);
  return (
    <g className="rfnb-Beam-column" data-column={column.step} data-current={current}>
      <text className="rfnb-Beam-step" x={x + width / 2} y={12}>
        {column.step}
      </text>
      {column.nodes.map(node => {
        const parent = node.parent === null ? undefined : parents.get(node.parent);
        return (
          parent && (
            <path
              key={node.row}
              className="rfnb-Beam-line"
              data-state={node.state}
              data-best={node.best && parent.best}
              data-chosen={node.row === chosen}
              d={curve(x - GAP, top(parent.row) + ROW / 2 - 2, x, top(node.row) + ROW / 2 - 2)}
            />
          )
        );
      })}
      {column.nodes.map(node => (
        <g
          key={node.row}
          className="rfnb-Beam-node"
          data-node={`${column.step}:${node.row}`}
          data-state={node.state}
          data-best={node.best}
          data-chosen={node.row === chosen}
          onClick={node.state === 'pruned' ? undefined : () => onChoose({ step: column.step, place: node.row })}
        >
          <title>{[`${node.text}  ${formatNumber(node.score)}`, ...about(node)].join('\n')}</title>
          <rect
            x={x}
            y={top(node.row)}
            width={width}
            height={ROW - 4}
            rx={3}
            style={{ '--rfnb-share': `${Math.round(share(node) * 42)}%` } as React.CSSProperties}
          />
          <text x={x + width / 2} y={top(node.row) + 14}>
            {written(node)}
          </text>
        </g>
      ))}
    </g>
  );
});

/** The hypotheses after this step, the best first. */
function Rows(props: { beam: BeamAt; still: boolean; onChoose: Choose }): JSX.Element {
  const words = useWords();
  const { beam, still, onChoose } = props;
  const parts = Object.keys(beam.rows[0]?.parts ?? {});
  const text = (row: BeamRow) => row.text || words.__('(no labels)');
  if (beam.rows.length === 0) {
    return <p className="rfnb-quiet">{words.__('No hypothesis is left.')}</p>;
  }
  return (
    <div className="rfnb-Beam-frame">
      <table className="rfnb-Beam-rows" aria-label={words.__('Hypotheses after this step')}>
        <thead>
          <tr>
            <th scope="col">{words.__('rank')}</th>
            <th scope="col" className="rfnb-Beam-text">
              {words.__('text so far')}
            </th>
            <th scope="col">{words.__('score')}</th>
            {parts.map(name => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
            <th scope="col">{words.__('extends')}</th>
          </tr>
        </thead>
        <tbody>
          {beam.rows.map(row => (
            <tr key={row.place} data-place={row.place} data-chosen={row.place === beam.place}>
              <td>{row.rank}</td>
              <td className="rfnb-Beam-text">
                {still ? (
                  <bdi>{text(row)}</bdi>
                ) : (
                  <button
                    type="button"
                    aria-pressed={row.place === beam.place}
                    title={words.__('Show the values of this hypothesis ([ and ] go up and down)')}
                    onClick={() => onChoose({ step: beam.step, place: row.place })}
                  >
                    <bdi>{text(row)}</bdi>
                  </button>
                )}
                {row.ended && <span className="rfnb-Beam-ended">▣ {words.__('ended')}</span>}
              </td>
              <td>{formatNumber(row.score)}</td>
              {parts.map(name => (
                <td key={name}>{name in row.parts ? formatNumber(row.parts[name]) : ''}</td>
              ))}
              <td>{row.parent === null ? '' : words.__('rank %1', row.parent)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The text in a node: a copy of a hypothesis that had ended is a dot. */
function written(node: BeamNode): string {
  const letters = [...(node.state === 'copy' ? '·' : node.text || '∅')];
  const label = letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join('')}…` : letters.join('');
  return label + (node.ends ? ' ▣' : '');
}

/** The place of each column from left to right; it does not depend on later ones. */
function placed(columns: readonly BeamStep[]): { x: number; right: number }[] {
  let x = 0;
  return columns.map(({ nodes }) => {
    const longest = Math.max(0, ...nodes.map(node => [...written(node)].length));
    const place = { x, right: x + Math.max(26, Math.ceil(longest * CHARACTER) + 10) };
    x = place.right + GAP;
    return place;
  });
}

function topOf(row: number, beam: number): number {
  return HEAD + row * ROW + (row >= beam ? FOOT : 0);
}

function curve(x: number, y: number, u: number, v: number): string {
  const middle = (x + u) / 2;
  return y === v ? `M${x},${y}H${u}` : `M${x},${y}C${middle},${y} ${middle},${v} ${u},${v}`;
}

import * as React from 'react';

import type { LineValue } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import { holds } from '../../stepper/notes';
import type { StepperState } from '../../stepper/stepper_state';
import { differing } from '../stepper/comparison';
import { Chips } from '../value/chips';
import { Dims } from '../value/dims';
import { Histogram } from '../value/histogram';
import { Picture, Stats, Value } from '../value/value';
import { useWords } from '../words';
import { NameAxes } from './edit';
import { Ops } from './ops';
import { indentation, tokens } from './python';
import { Rows } from './rows';

/** A line with more values than this shows its first and last ones; all are among its details. */
const MOST = 8;
const FIRST = 2;
const LAST = 4;

/** The lines of the loop as they ran, each with the values that it computed in this step. */
export function Body({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { run, step, line } = state;
  const indent = indentation(run.body);
  const values = byLine(step?.values ?? []);
  const moved = useMoved(line);
  const stops = new Set(state.notes.stops.filter(stop => holds(stop, run)).map(stop => stop.line));
  const other = differing(state);
  const skipped = new Set(step?.lines?.skipped);
  const outside = [...values.keys()].filter(at => at < run.first_line || at >= run.first_line + run.body.length);
  return (
    <section className="rfnb-Body" aria-label={words.__('Body of the loop')}>
      <h3>
        {words.__('Body')} <span className="rfnb-place">{run.place}</span>
      </h3>
      <ol className="rfnb-Body-lines">
        {run.body.map((text, i) => {
          const number = run.first_line + i;
          return (
            <Line
              key={number}
              number={number}
              text={text.slice(indent)}
              values={values.get(number) ?? []}
              current={number === line}
              follow={moved}
              stop={stops.has(number)}
              skipped={skipped.has(number)}
              failed={run.failure?.line === number && run.failure.step === step?.step}
              differing={other}
              state={state}
              actions={actions}
            />
          );
        })}
      </ol>
      {outside.length > 0 && (
        <details className="rfnb-Body-outside">
          <summary>{words.__('Computed outside the body')}</summary>
          {outside.map(at => (
            <div key={at}>
              <Values values={values.get(at) ?? []} differing={other} />
            </div>
          ))}
        </details>
      )}
    </section>
  );
}

function Line(props: {
  number: number;
  text: string;
  values: LineValue[];
  current: boolean;
  /** Whether to bring the current line into view. */
  follow: boolean;
  /** Whether the line is marked. */
  stop: boolean;
  /** Whether the code of the line did not run in this step. */
  skipped: boolean;
  /** Whether the run failed here, in this step. */
  failed: boolean;
  differing: ReadonlySet<string>;
  state: StepperState;
  actions: StepperActions;
}): JSX.Element {
  const words = useWords();
  const { number, text, values, current, follow, stop, state, actions } = props;
  const element = React.useRef<HTMLLIElement>(null);
  React.useEffect(() => {
    if (current && follow) {
      element.current?.scrollIntoView?.({ block: 'nearest' });
    }
  }, [current, follow]);
  return (
    <li
      ref={element}
      className="rfnb-Line"
      data-line={number}
      aria-current={current ? 'step' : undefined}
      data-failed={props.failed}
      data-skipped={props.skipped}
      title={props.skipped ? words.__('Did not run in this step') : undefined}
      style={{ '--rfnb-columns': text.length - text.trimStart().length } as React.CSSProperties}
      onClick={() => actions.look(number)}
    >
      <button
        className="rfnb-Line-number"
        type="button"
        tabIndex={-1}
        disabled={state.still}
        aria-pressed={stop}
        aria-label={words.__('Mark line %1', number)}
        title={stop ? words.__('Remove the mark (B)') : words.__('Mark this line, so that the search stops there (B)')}
        onClick={event => {
          event.stopPropagation();
          actions.toggleStop(number);
        }}
      >
        {number}
      </button>
      <code className="rfnb-Line-code">
        {tokens(text.trimStart()).map((token, i) => (
          <span key={i} data-token={token.kind}>
            {token.text}
          </span>
        ))}
      </code>
      <Values values={values} differing={props.differing} />
      {current && <Details line={number} values={values} state={state} actions={actions} />}
    </li>
  );
}

function Values(props: { values: LineValue[]; differing: ReadonlySet<string> }): JSX.Element | null {
  const words = useWords();
  const { values, differing } = props;
  if (values.length === 0) {
    return null;
  }
  const left = values.length > MOST ? values.length - FIRST - LAST : 0;
  const shown = (items: LineValue[]) =>
    items.map((item, i) => (
      <span key={i} className="rfnb-Line-value" data-differs={differing.has(item.value.name)}>
        <Value value={item.value} name={item.value.name} />
      </span>
    ));
  return (
    <span className="rfnb-Line-values">
      {shown(values.slice(0, left ? FIRST : values.length))}
      {left > 0 && <span className="rfnb-quiet">{words.__('… %1 more values', left)}</span>}
      {left > 0 && shown(values.slice(-LAST))}
    </span>
  );
}

/** Whether the user has moved to another line. The first line is chosen automatically, which should not scroll. */
function useMoved(line: number | null): boolean {
  const first = React.useRef(line);
  const moved = React.useRef(false);
  first.current ??= line;
  moved.current ||= line !== first.current;
  return moved.current;
}

/** Details of the values of the current line, and its ops. */
function Details(props: {
  line: number;
  values: LineValue[];
  state: StepperState;
  actions: StepperActions;
}): JSX.Element {
  const words = useWords();
  const { line, values, state, actions } = props;
  const ops = state.step?.ops ?? null;
  const isPlain = state.run.is_plain ?? false;
  const hasLoop = state.step?.lines?.loops.includes(line) ?? values.some(item => item.is_loop);
  return (
    <div className="rfnb-Line-details" onClick={event => event.stopPropagation()}>
      {(ops ? [] : values).map(({ op, value }, i) => (
        <span className="rfnb-Detail" key={i}>
          <span className="rfnb-Detail-head">
            <span className="rfnb-Value-name">{value.name}</span>
            <Dims dims={value.dims} />
            <span className="rfnb-Detail-op">{[op, value.dtype].filter(word => word !== '').join(' · ')}</span>
            <Chips flags={value.flags} alarms={value.alarms} />
            {isPlain && !state.still && !state.gone && value.dims.length > 0 && (
              <NameAxes
                value={value}
                aside={state.asides.name_axes}
                onName={text => actions.nameAxes(value.name, text)}
              />
            )}
          </span>
          {value.stats && (
            <span className="rfnb-Detail-stats">
              <Histogram stats={value.stats} />
              <Stats stats={value.stats} />
            </span>
          )}
          {value.is_row && !state.still && !state.gone ? (
            <Rows name={value.name} state={state} actions={actions} />
          ) : (
            <Picture value={value} />
          )}
        </span>
      ))}
      {!state.still && (
        <span className="rfnb-Line-acts">
          {!isPlain && (
            <button className="rfnb-Link" type="button" aria-expanded={ops !== null} onClick={actions.toggleOps}>
              {ops ? '▾' : '▸'} {words.__('Ops (O)')}
            </button>
          )}
          {hasLoop && (
            <button className="rfnb-Link" type="button" onClick={() => void actions.enter(isPlain ? line : null)}>
              {words.__('Step into the loop')}
            </button>
          )}
        </span>
      )}
      <Inner state={state} actions={actions} />
      {ops && <Ops ops={ops} line={line} actions={actions} />}
    </div>
  );
}

/** The loops inside this step, if there are several to choose from. */
function Inner({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const { loops } = state.asides;
  if (!loops || (!loops.error && (loops.answer?.length ?? 1) === 1)) {
    return null;
  }
  return (
    <span className="rfnb-Line-acts">
      {loops.error && <span className="rfnb-Watch-error">{loops.error}</span>}
      {loops.answer?.length === 0 && <span className="rfnb-quiet">{words.__('This step contains no loop.')}</span>}
      {loops.answer?.map(item => (
        <button key={item.run} className="rfnb-Link" type="button" onClick={() => actions.enterRun(item.run)}>
          {item.name} <span className="rfnb-quiet">{words._n('%1 step', '%1 steps', item.steps)}</span>
        </button>
      ))}
    </span>
  );
}

function byLine(values: LineValue[]): Map<number, LineValue[]> {
  const found = new Map<number, LineValue[]>();
  values.forEach(item => found.set(item.line, [...(found.get(item.line) ?? []), item]));
  return found;
}

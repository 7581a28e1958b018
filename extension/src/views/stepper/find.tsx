import * as React from 'react';

import type { Where } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { FindState } from '../../stepper/finder';
import { holds, Stop } from '../../stepper/notes';
import { StepperState, stepsBegun } from '../../stepper/stepper_state';
import { IconButton } from '../icon_button';
import { Icon } from '../icons';
import { useWords, Words } from '../words';

type Kind = Where['kind'];

const KINDS: Kind[] = ['not finite', 'over', 'changes', 'repeats', 'ends', 'expression'];
const OF_SEARCH: Kind[] = ['best changes', 'falls out'];
const OF_LINES: Kind[] = ['changes', 'not finite', 'over', 'repeats'];
const NEEDS_NAME: Kind[] = ['changes', 'repeats'];
const MAY_HAVE_NAME: Kind[] = ['not finite', 'over', ...NEEDS_NAME];

/** The search condition, the marked lines, and the buttons that go to the previous and the next match. */
export function Find({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { notes, run, find } = state;
  const stops = notes.stops.filter(stop => holds(stop, run));
  const idle = (notes.where === null && stops.length === 0) || state.gone || stepsBegun(run) === 0;
  const button = (name: 'previous' | 'next', label: string) => (
    <IconButton
      icon={name === 'next' ? 'nextHit' : 'previousHit'}
      label={label}
      off={idle}
      onClick={() => actions.goToHit(name)}
      data={{ 'data-hit': name }}
    />
  );
  return (
    <section className="rfnb-Find" role="search" aria-label={words.__('Find steps')}>
      <div className="rfnb-Find-row">
        <WhereEdit state={state} actions={actions} />
        <span className="rfnb-Find-buttons">
          {button('previous', words.__('Previous match (Shift+N)'))}
          {button('next', words.__('Next match (N)'))}
        </span>
        {state.canPause && (
          <label className="rfnb-Find-pause" title={words.__('Pause a running loop after each step that matches')}>
            <input
              type="checkbox"
              checked={notes.pauses}
              onChange={event => actions.note({ pauses: event.currentTarget.checked })}
            />
            {words.__('pause')}
          </label>
        )}
        <Progress find={find} steps={stepsBegun(run)} idle={idle} onCancel={actions.cancelSearch} />
      </div>
      {stops.map(stop => (
        <StopRow key={stop.line} stop={stop} actions={actions} />
      ))}
      {find.error !== null && (
        <div className="rfnb-Find-error" role="alert">
          {find.error}
        </div>
      )}
    </section>
  );
}

/** Chooses a condition and the value that it is about. */
function WhereEdit({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { where } = state.notes;
  const names = namesOf(state);
  const change = (kind: Kind, more: Partial<Where> = {}) => {
    const name = MAY_HAVE_NAME.includes(kind) ? (where?.name ?? null) : null;
    const isOther = where?.kind !== kind && [where?.kind, kind].includes('falls out'); // which has no expression
    const whose = NEEDS_NAME.includes(kind) ? (name ?? names[0] ?? null) : name;
    actions.note({
      where: {
        kind,
        line: null,
        limit: where?.limit ?? null,
        text: isOther ? null : (where?.text ?? null),
        name: whose,
        ...more
      }
    });
  };
  return (
    <>
      {where && MAY_HAVE_NAME.includes(where.kind) && (
        <select
          className="rfnb-Find-name"
          aria-label={words.__('Value to search')}
          value={where.name ?? ''}
          onChange={event => change(where.kind, { name: event.currentTarget.value || null })}
        >
          {!NEEDS_NAME.includes(where.kind) && <option value="">{words.__('any value')}</option>}
          {names.map(name => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
      <select
        className="rfnb-Find-kind"
        aria-label={words.__('Find steps where')}
        value={where?.kind ?? ''}
        onChange={event => {
          const kind = event.currentTarget.value;
          if (kind === '') {
            actions.note({ where: null });
          } else {
            change(kind as Kind);
          }
        }}
      >
        <option value="">{words.__('Find steps where …')}</option>
        {[...KINDS, ...(state.run.is_search ? OF_SEARCH : [])].map(kind => (
          <option key={kind} value={kind}>
            {wordsFor(kind, words)}
          </option>
        ))}
      </select>
      {where?.kind === 'over' && <Limit value={where.limit} onChange={limit => change('over', { limit })} />}
      {(where?.kind === 'expression' || where?.kind === 'falls out') && (
        <Entry
          key={where.kind}
          className="rfnb-Find-text"
          label={where.kind === 'expression' ? words.__('Expression') : words.__('Reference')}
          placeholder={where.kind === 'expression' ? 'h > 1' : words.__('labels of the reference')}
          value={where.text ?? ''}
          onEnter={text => change(where.kind, { text })}
        />
      )}
    </>
  );
}

/** A marked line and the condition for stopping there. */
function StopRow({ stop, actions }: { stop: Stop; actions: StepperActions }): JSX.Element {
  const words = useWords();
  return (
    <div className="rfnb-Stop" data-line={stop.line}>
      <button
        className="rfnb-Stop-line"
        type="button"
        title={stop.code.trim()}
        aria-label={words.__('Go to line %1', stop.line)}
        onClick={() => actions.look(stop.line)}
      >
        <i aria-hidden="true">◆</i> {words.__('line %1', stop.line)}
      </button>
      <code>{stop.code.trim()}</code>
      <select
        aria-label={words.__('Condition for stopping at line %1', stop.line)}
        value={stop.kind}
        onChange={event => actions.changeStop(stop, { kind: event.currentTarget.value as Kind })}
      >
        {OF_LINES.map(kind => (
          <option key={kind} value={kind}>
            {wordsFor(kind, words)}
          </option>
        ))}
      </select>
      {stop.kind === 'over' && <Limit value={stop.limit} onChange={limit => actions.changeStop(stop, { limit })} />}
      <button
        className="rfnb-Small-button"
        type="button"
        aria-label={words.__('Remove the mark from line %1', stop.line)}
        title={words.__('Remove this mark')}
        onClick={() => actions.toggleStop(stop.line)}
      >
        <Icon name="forget" />
      </button>
    </div>
  );
}

/** The progress of the search and the number of matches. */
function Progress(props: { find: FindState; steps: number; idle: boolean; onCancel: () => void }): JSX.Element {
  const words = useWords();
  const { find, steps, idle, onCancel } = props;
  const searched = find.searched === steps;
  const none = {
    next: words.__('no match after this step'),
    previous: words.__('no match before this step')
  };
  return (
    <span className="rfnb-Find-progress" role="status">
      {idle || (find.searched === 0 && !find.running)
        ? ''
        : find.none !== null
          ? searched && find.hits.length === 0
            ? words.__('no match')
            : none[find.none]
          : searched || find.hits.length > 0
            ? words._n('%1 match', '%1 matches', find.hits.length)
            : words.__('Searching …')}
      {find.running && (
        <button className="rfnb-Find-cancel" type="button" onClick={onCancel}>
          {words.__('Stop (%1 % done)', Math.floor((100 * find.searched) / Math.max(steps, 1)))}
        </button>
      )}
    </span>
  );
}

function Limit({ value, onChange }: { value: number | null; onChange: (limit: number | null) => void }): JSX.Element {
  const words = useWords();
  const read = (text: string) => (text.trim() === '' || !Number.isFinite(Number(text)) ? null : Number(text));
  return (
    <Entry
      className="rfnb-Find-limit"
      label={words.__('Limit')}
      placeholder={words.__('number')}
      value={value === null ? '' : String(value)}
      onEnter={text => onChange(read(text))}
    />
  );
}

/** A text field whose text takes effect on Enter or when the field loses the focus. */
export function Entry(props: {
  className: string;
  label: string;
  placeholder: string;
  value: string;
  /** Whether the field becomes empty for the next text. */
  clears?: boolean;
  onEnter: (text: string) => void;
}): JSX.Element {
  const [text, setText] = React.useState(props.value);
  React.useEffect(() => setText(props.value), [props.value]);
  const enter = () => {
    if (text !== props.value) {
      props.onEnter(text);
      setText(props.clears ? props.value : text);
    }
  };
  return (
    <input
      className={props.className}
      type="text"
      spellCheck={false}
      autoComplete="off"
      aria-label={props.label}
      placeholder={props.placeholder}
      value={text}
      onInput={event => setText(event.currentTarget.value)}
      onChange={ignore}
      onKeyDown={event => event.key === 'Enter' && enter()}
      onBlur={enter}
    />
  );
}

/** React requires `onChange` on a controlled input; `onInput` has handled the change already. */
export function ignore(): void {
  return;
}

function wordsFor(kind: Kind, words: Words): string {
  return {
    'not finite': words.__('is not finite'),
    over: words.__('exceeds ±'),
    changes: words.__('changes'),
    repeats: words.__('repeats its label'),
    ends: words.__('a sequence ends'),
    'best changes': words.__('the best hypothesis changes'),
    'falls out': words.__('the reference falls out of the beam'),
    expression: words.__('an expression is true')
  }[kind];
}

/** The states, then all other names in the body. */
function namesOf({ run, step }: StepperState): string[] {
  return [...new Set([...run.states, ...(step?.values ?? []).map(item => item.value.name)])];
}

import * as React from 'react';

import type { Link } from '../../kernel/connection';
import type { PausedView, RunItem } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import { conditions } from '../../stepper/notes';
import type { StepperState } from '../../stepper/stepper_state';
import { useKeptFocus } from '../focus';
import { IconButton } from '../icon_button';
import { StepperView } from '../stepper/stepper';
import { useWords } from '../words';
import { Guide, Lack } from './guide';
import { PauseActions, PauseButton, Paused, PausedElsewhere } from './paused';
import { RunActions, RunList } from './run_list';

/** Everything that the panel shows. */
export interface LoopsProps {
  /** The name of the notebook; null if none is open. */
  notebook: string | null;
  /** null without a kernel. */
  link: Link | null;
  busy: boolean;
  /** The loop that is paused in the running cell. */
  paused: PausedView | null;
  /** Other notebooks that are paused; `onActivate` shows one of them. */
  pausedElsewhere: readonly { id: string; name: string; paused: PausedView }[];
  onActivate: (id: string) => void;
  /** Whether the next step of a recorded loop will pause. */
  pauses: boolean;
  /** Whether the loops of plain Python in all cells are recorded; null if that is not known. */
  records: boolean | null;
  onRecord: (on: boolean) => void;
  complaint: string | null;
  error: string | null;
  runs: readonly RunItem[];
  filter: string;
  stepper: StepperState | null;
  stepperActions: StepperActions | null;
  runActions: RunActions;
  pauseActions: PauseActions;
  onFilter: (filter: string) => void;
  /** Inserts a cell with this code into the notebook. */
  onInsert: (code: string) => void;
  onRefresh: () => void;
}

/** The list of runs and, below or beside it, the stepper. */
export function LoopsView(props: LoopsProps): JSX.Element {
  const { stepper, stepperActions, runs, paused } = props;
  const lack = lackOf(props);
  const focus = useKeptFocus((panel, lost) => {
    const { resume } = lost.dataset;
    const again = resume ? panel.querySelector<HTMLElement>(`[data-resume=${resume}]`) : null;
    return again ?? (resume && props.busy ? null : panel.querySelector<HTMLElement>('.rfnb-Stepper'));
  });
  return (
    <div className="rfnb-Loops rfnb-Look" {...focus}>
      <Status {...props} />
      {props.pausedElsewhere.map(other => (
        <PausedElsewhere key={other.id} {...other} onActivate={props.onActivate} />
      ))}
      {paused !== null && (
        <Paused
          paused={paused}
          canMatch={stepper !== null && conditions(stepper.notes, stepper.run).length > 0}
          actions={props.pauseActions}
        />
      )}
      {props.complaint !== null && (
        <div className="rfnb-Note" data-kind="error" role="alert">
          {props.complaint}
        </div>
      )}
      {props.error !== null && (
        <div className="rfnb-Note" data-kind="error" role="alert">
          {props.error}
        </div>
      )}
      <div className="rfnb-Loops-parts">
        {runs.length > 0 && (
          <RunList
            runs={runs}
            filter={props.filter}
            chosen={stepper?.trail[0]?.run ?? stepper?.run.run ?? null}
            comparable={stepper !== null && stepper.trail.length === 0}
            actions={props.runActions}
            onFilter={props.onFilter}
          />
        )}
        {stepper && stepperActions && <StepperView key={stepper.run.loop} state={stepper} actions={stepperActions} />}
        {lack !== null && props.complaint === null && (
          <Guide
            lack={lack}
            records={props.records}
            onRecord={props.onRecord}
            onInsert={props.onInsert}
            onRefresh={props.onRefresh}
          />
        )}
      </div>
    </div>
  );
}

function Status(props: LoopsProps): JSX.Element {
  const words = useWords();
  const { notebook, busy, link, paused, pauses, pauseActions, records, onRecord } = props;
  return (
    <div className="rfnb-Status">
      <h2>{words.__('Loops')}</h2>
      <span className="rfnb-Status-notebook" title={notebook ?? ''}>
        {notebook}
      </span>
      {link === 'ready' && records !== null && <RecordButton on={records} onSwitch={onRecord} />}
      {link === 'ready' && paused === null && <PauseButton on={pauses} actions={pauseActions} />}
      {busy && paused === null && (
        <span className="rfnb-Status-busy" role="status">
          {words.__('cell running')}
        </span>
      )}
    </div>
  );
}

/** Records the loops of plain Python in all cells that run. */
function RecordButton({ on, onSwitch }: { on: boolean; onSwitch: (on: boolean) => void }): JSX.Element {
  const words = useWords();
  const label = on
    ? words.__('The loops of all cells that run are recorded; press again to stop that')
    : words.__('Record loops of this notebook: those of all cells that run from now on');
  return (
    <IconButton
      icon="record"
      label={label}
      pressed={on}
      look="rfnb-Small-button rfnb-Status-record"
      onClick={() => onSwitch(!on)}
    />
  );
}

function lackOf({ notebook, link, busy, runs, stepper }: LoopsProps): Lack | null {
  if (stepper !== null) {
    return null;
  }
  if (notebook === null) {
    return 'notebook';
  }
  switch (link) {
    case null:
    case 'dead':
      return 'kernel';
    case 'connecting':
      return busy ? 'busy' : 'connecting';
    case 'absent':
      return 'rfnb';
    default:
      return runs.length === 0 ? 'loops' : null;
  }
}

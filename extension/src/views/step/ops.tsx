import * as React from 'react';

import type { OpRow, OpsView, ValueView } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import { Chips } from '../value/chips';
import { Dims } from '../value/dims';
import { Picture, Stats, Value } from '../value/value';
import { useWords } from '../words';

/** The ops of a line, also those inside modules; the current op shows its inputs and outputs. */
export function Ops(props: { ops: OpsView; line: number; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { ops, line, actions } = props;
  const rows = ops.rows.filter(row => row.line === line);
  return (
    <div className="rfnb-Ops" role="group" aria-label={words.__('Ops of line %1', line)}>
      {ops.error !== null && (
        <span className="rfnb-Watch-error" role="alert">
          {ops.error}
        </span>
      )}
      {rows.length === 0 && ops.error === null && (
        <span className="rfnb-quiet">{words.__('This line has no ops.')}</span>
      )}
      {rows.map(row => (
        <Op key={row.number} row={row} ops={ops} actions={actions} />
      ))}
    </div>
  );
}

function Op({ row, ops, actions }: { row: OpRow; ops: OpsView; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const view = ops.op?.number === row.number ? ops.op : null;
  const current = view !== null;
  const element = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (current) {
      element.current?.scrollIntoView?.({ block: 'nearest' });
    }
  }, [current, view]);
  return (
    <div ref={element} className="rfnb-Op" aria-current={current ? 'step' : undefined} data-op={row.number}>
      <button
        className="rfnb-Op-head"
        type="button"
        aria-expanded={current}
        onClick={() => actions.lookAtOp(row.number)}
      >
        <span className="rfnb-Op-name">{row.op}</span>
        {row.path !== '' && <span className="rfnb-Op-path">{row.path}</span>}
        <Dims dims={row.dims} />
        <span className="rfnb-Detail-op">{row.dtype}</span>
      </button>
      {row.is_loop && (
        <button className="rfnb-Button" type="button" onClick={() => void actions.enter()}>
          {words.__('Step into the loop')}
        </button>
      )}
      {view && (
        <div className="rfnb-Op-values">
          {view.inputs.map((value, i) => (
            <Operand key={`in ${i}`} mark="←" value={value} />
          ))}
          {view.outputs.map((value, i) => (
            <Operand key={`out ${i}`} mark="→" value={value} />
          ))}
        </div>
      )}
    </div>
  );
}

function Operand({ mark, value }: { mark: '←' | '→'; value: ValueView }): JSX.Element {
  return (
    <div className="rfnb-Operand" data-side={mark === '←' ? 'in' : 'out'}>
      <span aria-hidden="true">{mark}</span>
      <Value value={{ ...value, picture: null }} name={value.name} />
      <span className="rfnb-Operand-facts">
        <Stats stats={value.stats} />
        <Chips flags={value.flags} alarms={value.alarms} />
        <Picture value={value} />
      </span>
    </div>
  );
}

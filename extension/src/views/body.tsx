import * as React from 'react';

import type { LineValue, RunView, StepView } from '../schema';
import { useWords } from '../words';
import { Chips } from './chips';
import { Dims } from './dims';
import { Histogram } from './histogram';
import { indentation, tokens } from './python';
import { Picture, Stats, Value } from './value';

/** The lines of the loop as they ran, the current one marked, each with what it computed in this step. */
export function Body(props: {
  run: RunView;
  step: StepView | null;
  line: number | null;
  onLine: (line: number) => void;
}): JSX.Element {
  const words = useWords();
  const { run, step, line, onLine } = props;
  const indent = indentation(run.body);
  const values = byLine(step?.values ?? []);
  const moved = useMoved(line);
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
              onLine={onLine}
            />
          );
        })}
      </ol>
      {outside.length > 0 && (
        <details className="rfnb-Body-outside">
          <summary>{words.__('Computed elsewhere for this loop')}</summary>
          {outside.map(at => (
            <div key={at}>
              <Values values={values.get(at) ?? []} />
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
  onLine: (line: number) => void;
}): JSX.Element {
  const { number, text, values, current, follow, onLine } = props;
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
      style={{ '--rfnb-columns': text.length - text.trimStart().length } as React.CSSProperties}
      onClick={() => onLine(number)}
    >
      <span className="rfnb-Line-number" aria-hidden="true">
        {number}
      </span>
      <code className="rfnb-Line-code">
        {tokens(text.trimStart()).map((token, i) => (
          <span key={i} data-token={token.kind}>
            {token.text}
          </span>
        ))}
      </code>
      <Values values={values} />
      {current && values.length > 0 && <Details values={values} />}
    </li>
  );
}

function Values({ values }: { values: LineValue[] }): JSX.Element | null {
  if (values.length === 0) {
    return null;
  }
  return (
    <span className="rfnb-Line-values">
      {values.map((item, i) => (
        <Value key={i} value={item.value} name={item.value.name} />
      ))}
    </span>
  );
}

/** Whether the user went to another line: the first one is chosen for him, and nothing should move for that. */
function useMoved(line: number | null): boolean {
  const first = React.useRef(line);
  const moved = React.useRef(false);
  first.current ??= line;
  moved.current ||= line !== first.current;
  return moved.current;
}

/** All that is known of the values of the current line. */
function Details({ values }: { values: LineValue[] }): JSX.Element {
  return (
    <span className="rfnb-Line-details">
      {values.map(({ op, value }, i) => (
        <span className="rfnb-Detail" key={i}>
          <span className="rfnb-Detail-head">
            <span className="rfnb-Value-name">{value.name}</span>
            <Dims dims={value.dims} />
            <span className="rfnb-Detail-op">
              {op} · {value.dtype}
            </span>
            <Chips flags={value.flags} />
          </span>
          <span className="rfnb-Detail-stats">
            <Histogram stats={value.stats} />
            <Stats stats={value.stats} />
          </span>
          <Picture value={value} />
        </span>
      ))}
    </span>
  );
}

function byLine(values: LineValue[]): Map<number, LineValue[]> {
  const found = new Map<number, LineValue[]>();
  values.forEach(item => found.set(item.line, [...(found.get(item.line) ?? []), item]));
  return found;
}

import * as React from 'react';

import { finite, formatNumber } from '../../numbers';
import type { Curve, GradientsView } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { useWords } from '../words';

const WIDTH = 240;
const HEIGHT = 44;
const EDGE = 3;

/** The gradient of a chosen value through the steps. A button requests it, because it takes as long as a run. */
export function Gradients({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const { step, asides } = state;
  const values = [...(step?.states ?? []).map(row => row.after), ...(step?.values ?? []).map(item => item.value)];
  const differentiable = values.filter(value => /float|complex/.test(value.dtype));
  const names = [...new Set(differentiable.map(value => value.name))];
  const [chosen, choose] = React.useState<string | null>(null);
  const loss = chosen ?? names[0];
  const aside = asides.gradients;
  return loss === undefined ? null : (
    <details className="rfnb-Gradients">
      <summary>{words.__('Gradient through time')}</summary>
      <div className="rfnb-Find-row">
        <label>
          {words.__('of the sum of')}{' '}
          <select value={loss} onChange={event => choose(event.currentTarget.value)}>
            {names.map(name => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button
          className="rfnb-Button"
          type="button"
          aria-disabled={aside?.waiting ?? false}
          onClick={() => !aside?.waiting && actions.ask('gradients', { loss, sequence: step?.sequence ?? null })}
        >
          {aside?.waiting ? words.__('Computing …') : words.__('Compute')}
        </button>
      </div>
      {aside?.error && (
        <div className="rfnb-Watch-error" role="alert">
          {aside.error}
        </div>
      )}
      {aside?.answer && <Curves view={aside.answer} state={state} />}
    </details>
  );
}

function Curves({ view, state }: { view: GradientsView; state: StepperState }): JSX.Element {
  const words = useWords();
  const at = state.step?.step ?? 0;
  return (
    <div className="rfnb-Gradients-curves">
      {view.curves.map(curve => (
        <figure
          key={curve.state}
          className="rfnb-Curve"
          data-curve={curve.state}
          title={words.__('Norm of the gradient of the sum of %1 with respect to %2', view.loss, curve.state)}
        >
          <figcaption>
            <code>{curve.state}</code> <b>{formatNumber(curve.norms[at] ?? 'nan')}</b> {words.__('after step %1', at)}
          </figcaption>
          <LogCurve curve={curve} at={at} />
        </figure>
      ))}
    </div>
  );
}

/** The norms on a logarithmic scale; a dot at the bottom where it is 0, a cross where it is not finite. */
function LogCurve({ curve, at }: { curve: Curve; at: number }): JSX.Element {
  const words = useWords();
  const { norms } = curve;
  const positive = finite(norms).filter(norm => norm > 0);
  const logs = positive.map(Math.log10);
  const low = Math.floor(Math.min(0, ...logs));
  const high = Math.ceil(Math.max(0, ...logs));
  const x = (i: number) => EDGE + (i / Math.max(norms.length - 1, 1)) * (WIDTH - 2 * EDGE);
  const y = (norm: number) => HEIGHT - EDGE - ((Math.log10(norm) - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
  const drawn = norms.map((norm, i) => [i, norm] as const).filter(([, norm]) => typeof norm === 'number' && norm > 0);
  const label = words.__(
    'Gradient norm over the steps: %1 to %2',
    formatNumber(Math.min(...positive, Infinity)),
    formatNumber(Math.max(...positive, -Infinity))
  );
  return (
    <div className="rfnb-Curve-plot">
      <span className="rfnb-Curve-scale" aria-hidden="true">
        <span>1e{high}</span>
        <span>1e{low}</span>
      </span>
      <svg
        className="rfnb-Sparkline"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <title>{label}</title>
        <line className="rfnb-Curve-one" x1={0} x2={WIDTH} y1={y(1)} y2={y(1)} />
        <line className="rfnb-Curve-at" x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} />
        <polyline points={drawn.map(([i, norm]) => `${x(i).toFixed(1)},${y(Number(norm)).toFixed(1)}`).join(' ')} />
        {norms.map((norm, i) =>
          norm === 0 ? (
            <path key={i} className="rfnb-mod-zero" d={`M${x(i) - 1},${HEIGHT - EDGE}h2`} />
          ) : typeof norm === 'number' ? null : (
            <path key={i} className="rfnb-mod-bad" d={`M${x(i) - 2},${HEIGHT - 6}l4,4m0,-4l-4,4`} />
          )
        )}
      </svg>
    </div>
  );
}

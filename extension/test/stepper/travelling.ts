import { Requests } from '../../src/kernel/requests';
import type { Message, OpsView } from '../../src/schema';
import { Notes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import type { Place } from '../../src/stepper/stepper_state';
import { opRow, runView, stepView, watchRow } from '../examples';
import { settle } from '../fake_kernel';

type Answer = (message: Message) => unknown;

type Args = { step: number; sequence: number | null; watch?: string[]; ops?: boolean; op?: number | null };

const ROWS = [opRow(0), opRow(1), opRow(2, { line: 5 })];

function opsView({ ops, op }: Pick<Args, 'ops' | 'op'>): OpsView | null {
  const number = (op ?? 0) < 0 ? ROWS.length - 1 : (op ?? null);
  return ops ? { rows: ROWS, op: number === null ? null : { number, inputs: [], outputs: [] }, error: null } : null;
}

/** A stepper at step 0 of a kernel that answers as the test says; `null` stands for an error. */
export function travelling(answer: Answer, run = runView()) {
  const asked: Message[] = [];
  const opened: [number, Place][] = [];
  const notes = new Notes();
  const requests = new Requests(message => {
    asked.push(message);
    const { step, sequence, watch, ...more } = message.args as Args;
    const shown = stepView(step, { sequence, watches: (watch ?? []).map(text => watchRow(text)), ops: opsView(more) });
    const data = message.command === 'step' ? shown : answer(message);
    const status = data === null ? 'error' : 'ok';
    setTimeout(() => requests.receive({ id: message.id, status, data, error: data === null ? 'refused' : null }));
  });
  const open = (other: number, at: Place) => void opened.push([other, at]);
  const stepper = new Stepper(requests, run, stepView(0), { notes, trail: [], open });
  return { stepper, asked, opened, notes };
}

/** Let all answers arrive. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 6; i++) {
    await settle();
  }
}

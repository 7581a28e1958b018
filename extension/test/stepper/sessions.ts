import { Connection } from '../../src/kernel/connection';
import type { Message, RunItem } from '../../src/schema';
import { Session } from '../../src/stepper/session';
import { runView, stepView } from '../examples';
import { FakeKernel, settle } from '../fake_kernel';

/** A session of a kernel with these runs; a test may add to them. */
export async function session(runs: RunItem[]): Promise<{ kernel: FakeKernel; session: Session; runs: RunItem[] }> {
  const kernel = new FakeKernel();
  kernel.answer = ({ command, args }: Message) => {
    const run = args.run as number;
    const found = runs.find(item => item.run === run);
    switch (command) {
      case 'run':
        return { data: runView({ run, ...(found && { loop: found.loop, name: found.name, place: found.place }) }) };
      case 'step':
        return { data: stepView(args.step as number, { run, sequence: args.sequence as number | null }) };
      case 'record_cells':
        return { data: args.on ?? false };
      case 'paused':
      case 'pause':
      case 'pause_at':
      case 'resume':
        return { data: null };
      default:
        return { data: [...runs] };
    }
  };
  const connection = new Connection(kernel.connection);
  const made = new Session(connection);
  await connection.connect();
  await settle();
  return { kernel, session: made, runs };
}

/** The number of the run that is shown. */
export const shown = (session: Session) => session.stepper?.state.run.run ?? null;

/** Run a cell that records a run. */
export async function record(kernel: FakeKernel, runs: RunItem[], added: RunItem): Promise<void> {
  kernel.startCell('loop()');
  runs.unshift(added);
  kernel.emit({ event: 'runs', data: [...runs] });
  kernel.endCell();
  await settle();
}

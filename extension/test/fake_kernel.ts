import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { IKernel } from '../src/kernel/connection';
import type { Event, Message, Reply } from '../src/schema';
import { PROTOCOL } from '../src/schema';

type Answer = Partial<Reply> | null;

/** A kernel with comms, and an rfnb in it that answers as a test says. */
export class FakeKernel {
  id = 'kernel-1';
  status: Kernel.Status = 'idle';
  handleComms = true;
  supportsSubshells = true;
  info = Promise.resolve({} as KernelMessage.IInfoReply);
  statusChanged = new Signal<this, Kernel.Status>(this);
  connectionStatusChanged = new Signal<this, Kernel.ConnectionStatus>(this);
  iopubMessage = new Signal<this, KernelMessage.IIOPubMessage>(this);
  disposed = new Signal<this, void>(this);

  /** Whether rfnb is imported. */
  imported = true;
  protocol = PROTOCOL;
  /** What commands other than hello are answered with; null for nothing yet. */
  answer: (message: Message) => Answer = () => ({ data: [] });
  sent: Message[] = [];
  comms: FakeComm[] = [];

  createComm(target: string): Kernel.IComm {
    const comm = new FakeComm(this, target);
    this.comms.push(comm);
    return comm as unknown as Kernel.IComm;
  }

  receive(comm: FakeComm, message: Message): void {
    this.sent.push(message);
    const hello = { data: { protocol: this.protocol, version: '9.9.9', session: 'abc' } };
    const answer = message.command === 'hello' ? hello : this.answer(message);
    if (answer) {
      comm.say({ id: message.id, status: 'ok', data: null, error: null, ...answer });
    }
  }

  emit(event: Event): void {
    this.comms.filter(comm => comm.target === 'rfnb.events' && !comm.isDisposed).forEach(comm => comm.say(event));
  }

  startCell(code: string): void {
    this._iopub('execute_input', { code });
  }

  endCell(): void {
    this._iopub('status', { execution_state: 'idle' });
  }

  restart(): void {
    this.imported = false;
    this.comms.forEach(comm => (comm.isDisposed = true));
    this.statusChanged.emit('restarting');
  }

  get connection(): IKernel {
    return this as unknown as IKernel;
  }

  private _iopub(type: string, content: object): void {
    const message = { header: { msg_type: type }, parent_header: { msg_type: 'execute_request' }, content };
    this.iopubMessage.emit(message as unknown as KernelMessage.IIOPubMessage);
  }
}

export class FakeComm {
  constructor(kernel: FakeKernel, target: string) {
    this._kernel = kernel;
    this.target = target;
  }

  readonly target: string;
  isDisposed = false;
  commsOverSubshells = 'disabled';
  onMsg: (msg: KernelMessage.ICommMsgMsg) => void = () => undefined;
  onClose: (msg: KernelMessage.ICommCloseMsg) => void = () => undefined;

  get subshellStarted(): Promise<void> {
    const never = new Promise<void>(() => undefined);
    return this.commsOverSubshells === 'disabled' ? never : Promise.resolve();
  }

  open(): { done: Promise<void> } {
    if (!this._kernel.imported) {
      this.close();
    }
    return { done: Promise.resolve() };
  }

  close(): void {
    this.isDisposed = true;
    this.onClose({} as KernelMessage.ICommCloseMsg);
  }

  send(data: unknown): void {
    this._kernel.receive(this, data as Message);
  }

  say(data: unknown): void {
    this.onMsg({ content: { data } } as KernelMessage.ICommMsgMsg);
  }

  dispose(): void {
    this.isDisposed = true;
  }

  private _kernel: FakeKernel;
}

/** Let all promises settle. */
export async function settle(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, 0));
}

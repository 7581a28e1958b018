import type { Kernel, KernelMessage, CommsOverSubshells } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Event, Hello, PROTOCOL, Reply } from '../schema';
import { PLAIN, Words } from '../words';
import { isBusySinceBefore, onOwnSubshell } from './busy_comm';
import { Requests } from './requests';

/** The version of this extension: package.json says the same (a test compares them). */
export const VERSION = '0.1.0';

/** `absent`: rfnb is not imported there yet; `mismatch`: panel and kernel speak different protocols. */
export type Link = 'absent' | 'connecting' | 'ready' | 'mismatch' | 'dead';

/** The part of a kernel connection that is used here. */
export type IKernel = Pick<
  Kernel.IKernelConnection,
  | 'id'
  | 'status'
  | 'statusChanged'
  | 'connectionStatusChanged'
  | 'iopubMessage'
  | 'info'
  | 'supportsSubshells'
  | 'createComm'
  | 'handleComms'
  | 'disposed'
>;

/** The id of the display that rfnb updates when it has been imported; nothing is displayed. */
const READY = 'rfnb-ready';

/** Code that does not match this cannot have imported a module. */
const MAY_IMPORT = /import|%|exec|reload/;

/**
 * The two comms to rfnb in one kernel.
 *
 * Commands and their answers use one comm, events of the kernel use the other: a kernel sends a front end's
 * message to the thread that last wrote to its comm, so a running cell that wrote to the command comm would block it.
 */
export class Connection implements IDisposable {
  constructor(kernel: IKernel, words: Words = PLAIN) {
    this._kernel = kernel;
    this._words = words;
    this.requests = new Requests(message => {
      if (!this._commands || this._commands.isDisposed) {
        throw new Error(words.__('There is no connection to rfnb in the kernel.'));
      }
      this._commands.send({ ...message } as unknown as Parameters<Kernel.IComm['send']>[0]);
    });
    kernel.statusChanged.connect(this._onStatus, this);
    kernel.connectionStatusChanged.connect(this._onConnectionStatus, this);
    kernel.iopubMessage.connect(this._onIOPub, this);
    kernel.disposed.connect(this._onDisposed, this);
  }

  readonly requests: Requests;

  get kernel(): IKernel {
    return this._kernel;
  }

  get link(): Link {
    return this._link;
  }

  /** Why panel and kernel cannot communicate, as a message to the user. */
  get complaint(): string | null {
    return this._complaint;
  }

  /** Whether the kernel runs a cell. Its status cannot tell: messages that another thread answers change it too. */
  get busy(): boolean {
    return this._busy;
  }

  /** The id of the kernel process; null until the first answer. */
  get session(): string | null {
    return this._session;
  }

  get linkChanged(): ISignal<this, Link> {
    return this._linkChanged;
  }

  /** Events of the kernel, except late answers. */
  get event(): ISignal<this, Event> {
    return this._event;
  }

  /** Emits when a cell starts. */
  get cellBegan(): ISignal<this, void> {
    return this._cellBegan;
  }

  /** Emits when a cell ends. */
  get cellEnded(): ISignal<this, void> {
    return this._cellEnded;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Connect to rfnb if the kernel has imported it. Safe to call at any time. */
  async connect(): Promise<void> {
    if (this._isDisposed || this._link === 'connecting' || this._link === 'ready' || this._link === 'mismatch') {
      return;
    }
    const attempt = ++this._attempt;
    this._setLink('connecting');
    try {
      this._commands = await this._open('rfnb.commands', data => this.requests.receive(data as Reply), attempt);
      const hello = await this.requests.request('hello', { protocol: PROTOCOL, version: VERSION });
      this._session = hello.session;
      this._complaint = complaintAbout(hello, this._words);
      if (this._complaint !== null) {
        this._setLink('mismatch');
        return;
      }
      this._events = await this._open('rfnb.events', data => this._onEvent(data as Event), attempt);
      this._setLink('ready');
    } catch {
      if (attempt === this._attempt && !this._isDisposed) {
        this._drop('absent');
      }
    }
    if (this._importedMeanwhile) {
      this._importedMeanwhile = false;
      void this.connect();
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    if (this._link !== 'dead') {
      this._drop('dead');
    }
    Signal.clearData(this);
  }

  /** Open a comm on a subshell, so that it works while a cell runs; rejects if the kernel closes it at once. */
  private async _open(target: string, receive: (data: unknown) => void, attempt: number): Promise<Kernel.IComm> {
    const isLate = await isBusySinceBefore(this._kernel);
    const comm = this._kernel.createComm(target);
    let closed = false;
    comm.onMsg = (msg: KernelMessage.ICommMsgMsg) => receive(msg.content.data);
    comm.onClose = () => {
      closed = true;
      this._onClose(attempt);
    };
    if (isLate) {
      await onOwnSubshell(this._kernel as Kernel.IKernelConnection, comm);
    } else {
      await onSubshell(this._kernel, comm);
    }
    await comm.open({ protocol: PROTOCOL, version: VERSION }).done;
    if (closed || attempt !== this._attempt || this._isDisposed) {
      throw new Error(`The kernel has no ${target}.`);
    }
    return comm;
  }

  private _onDisposed(): void {
    this._forget('dead');
    this.dispose();
  }

  private _onClose(attempt: number): void {
    if (attempt === this._attempt && this._link !== 'dead') {
      this._drop('absent');
    }
  }

  private _onEvent(event: Event): void {
    if (event.event === 'reply') {
      this.requests.receive(event.data as Reply);
    } else {
      this._event.emit(event);
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting') {
      this._forget('absent');
    } else if (status === 'dead' || status === 'terminating') {
      this._forget('dead');
    }
  }

  private _onConnectionStatus(_: unknown, status: Kernel.ConnectionStatus): void {
    if (status === 'connected' && this._link === 'ready') {
      this._linkChanged.emit('ready'); // events may have been missed
    }
  }

  private _onIOPub(_: unknown, msg: KernelMessage.IIOPubMessage): void {
    if (msg.header.msg_type === 'execute_input') {
      this._busy = true;
      this._mayImport = this._mayImport || MAY_IMPORT.test((msg.content as { code: string }).code);
      this._cellBegan.emit();
      return;
    }
    if (msg.header.msg_type === 'update_display_data' && displayOf(msg) === READY) {
      this._importedMeanwhile = this._link === 'connecting';
      void this.connect(); // the cell that imports rfnb may go on with training
      return;
    }
    const parent = msg.parent_header as Partial<KernelMessage.IHeader>;
    const idle =
      msg.header.msg_type === 'status' && (msg.content as { execution_state: string }).execution_state === 'idle';
    if (idle && parent.msg_type === 'execute_request') {
      this._onCellEnd();
    }
  }

  private _onCellEnd(): void {
    this._busy = false;
    if (this._mayImport) {
      this._mayImport = false;
      if (this._link === 'connecting') {
        this._importedMeanwhile = true;
      }
      void this.connect();
    }
    this._cellEnded.emit();
  }

  /** Close the comms of a living kernel. */
  private _drop(link: Link): void {
    const comms = [this._commands, this._events];
    this._forget(link);
    comms.forEach(comm => !comm?.isDisposed && comm?.dispose());
  }

  /** Forget comms that ended with the kernel, and reject requests that wait for an answer. */
  private _forget(link: Link): void {
    this._attempt++;
    this._commands = this._events = null;
    this._busy = false;
    this._complaint = this._session = null;
    this._setLink(link);
    this.requests.abandon(this._words.__('The kernel was restarted or has ended.'));
  }

  private _setLink(link: Link): void {
    if (this._link !== link) {
      this._link = link;
      this._linkChanged.emit(link);
    }
  }

  private _kernel: IKernel;
  private _words: Words;
  private _link: Link = 'absent';
  private _complaint: string | null = null;
  private _session: string | null = null;
  private _commands: Kernel.IComm | null = null;
  private _events: Kernel.IComm | null = null;
  private _attempt = 0;
  private _busy = false;
  private _mayImport = false;
  private _importedMeanwhile = false;
  private _isDisposed = false;
  private _linkChanged = new Signal<this, Link>(this);
  private _event = new Signal<this, Event>(this);
  private _cellBegan = new Signal<this, void>(this);
  private _cellEnded = new Signal<this, void>(this);
}

function displayOf(msg: KernelMessage.IIOPubMessage): string | undefined {
  return (msg.content as KernelMessage.IUpdateDisplayDataMsg['content']).transient?.display_id;
}

/** Move a comm to a subshell where the kernel has them, even if the user's setting keeps other comms off. */
async function onSubshell(kernel: IKernel, comm: Kernel.IComm): Promise<void> {
  if (!kernel.supportsSubshells) {
    return;
  }
  if (comm.commsOverSubshells === ('disabled' as CommsOverSubshells)) {
    comm.commsOverSubshells = 'perCommTarget' as CommsOverSubshells;
  }
  await (comm as Kernel.IComm & { subshellStarted?: Promise<void> }).subshellStarted;
}

/** Which side to update, if the two sides speak different protocols. */
export function complaintAbout(hello: Hello, words: Words = PLAIN): string | null {
  if (hello.protocol === PROTOCOL) {
    return null;
  }
  const versions = words.__(
    'This panel is version %1, rfnb in the kernel is version %2: they do not understand each other.',
    VERSION,
    hello.version
  );
  const cure =
    hello.protocol > PROTOCOL
      ? words.__('Update rfnb where JupyterLab runs (pip install -U rfnb), then reload this page.')
      : words.__('Update rfnb where the kernel runs (%pip install -U rfnb in a cell), then restart the kernel.');
  return `${versions} ${cure}`;
}

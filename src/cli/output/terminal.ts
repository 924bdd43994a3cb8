import { setImmediate } from 'node:timers/promises';
import { escaped } from '../../telemetry/format.ts';
import type { Scrubber } from '../../telemetry/scrubber.ts';
import type { ProgressStyle } from '../../telemetry/progress.ts';
import { jsonText, versioned } from './json-text.ts';

/** The parts of `process.stdout` that are used. */
export interface Output {
  /** `false`: it takes no more for now, until `drain`. */
  write(chunk: string | Uint8Array): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  once?(event: 'drain', listener: () => void): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

interface TerminalOptions {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly scrubber: Scrubber;
  readonly isJson: boolean;
}

const defaultColumns = 80;

/** The only way to a person's or a program's eyes; every text but a copy of stored records passes the scrubber. */
export type Terminal = ReturnType<typeof openTerminal>;

export function openTerminal({ stdout, stderr, env, scrubber, isJson }: TerminalOptions) {
  let drawn = 0;
  let isLost = false;
  const err = writer(stderr, () => undefined);
  const toErr = (text: string): void => err.write(scrubber.scrub(text));
  const out = writer(stdout, (error) => {
    isLost = true;
    toErr(`Standard output cannot be written: ${error.message}\n`);
  });
  const toOut = (text: string): void => out.write(scrubber.scrub(text));
  // Up over the lines drawn before, then clear to the end of the screen.
  const eraser = (): string => (drawn > 0 ? `\u001b[${drawn}A\r\u001b[0J` : '');
  const erase = (): void => {
    if (drawn > 0) toErr(eraser());
    drawn = 0;
  };
  /** A terminal may not know its width, or call it 0. */
  const widthOf = ({ columns = 0 }: Output): number =>
    [columns, Number(env['COLUMNS'])].find((one) => Number.isInteger(one) && one > 0) ?? defaultColumns;
  const isLive = stderr.isTTY === true && env['TERM'] !== 'dumb' && !isJson;
  return {
    isJson,
    /** How wide a line of results may be; null where it is no screen. */
    columns: (): number | null => (stdout.isTTY === true ? widthOf(stdout) : null),
    /** True once standard output refused what it was given (a full disk, say); a reader that closes it is no loss. */
    hasLostOutput: (): boolean => isLost,
    /** A result for people, on stdout; nothing with `--json`. Ends each line. */
    print: (...lines: readonly string[]): void => {
      if (isJson || lines.length === 0) return;
      erase();
      toOut(text(lines));
    },
    /** A result for machines, one line of JSON on stdout, only with `--json`. */
    printJson: (document: object): void => {
      if (isJson) toOut(`${jsonText(versioned(document))}\n`);
    },
    /**
     * Stored records on stdout, whatever `--json` says, to the letter: a copy with holes in it would be no copy. On a
     * screen what could steer it is made visible instead. Resolves when there is room for more; false: the reader has
     * closed the output.
     */
    printRecords: (text: string): Promise<boolean> =>
      out.writeAll(stdout.isTTY === true ? escaped(text) : text),
    /** The bytes of a file on stdout, as they are. Resolves as `printRecords` does. */
    printBytes: (bytes: Uint8Array): Promise<boolean> => out.writeAll(bytes),
    /** Prints events and errors to stderr. */
    note: (...lines: readonly string[]): void => {
      if (lines.length === 0) return;
      erase();
      toErr(text(lines));
    },
    /**
     * On stderr, with `--json` too: a person has to read it. The address to the letter: it is opened, and has the id
     * of an app, which is no secret there.
     */
    noteAddress: (what: string, address: string): void => {
      erase();
      toErr(`${what}\n`);
      err.write(`  ${escaped(address)}\n`);
    },
    addLine: (line: string): void => toErr(`${line}\n`),
    redraw: (lines: readonly string[]): void => {
      // One write: in two, the empty screen in between is seen as flicker.
      const shown = within(lines, stderr.rows ?? Infinity);
      const drawing = eraser() + text(shown);
      if (drawing !== '') toErr(drawing);
      drawn = shown.length;
    },
    style: isLive
      ? (): ProgressStyle => ({
          columns: widthOf(stderr),
          hasColor: (env['NO_COLOR'] ?? '') === '',
        })
      : null,
  };
}

function text(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** The first line and the last ones: the cursor does not climb back to what has scrolled off the screen. */
function within(lines: readonly string[], rows: number): readonly string[] {
  const room = Math.max(2, rows - 1);
  return lines.length <= room ? lines : [...lines.slice(0, 1), ...lines.slice(1 - room)];
}

/** After its first error an output gets nothing more. A reader that closes it (`| head`) is no failure. */
function writer(output: Output, onLost: (error: Error) => void) {
  let isGone = false;
  let onRoom = (): void => undefined;
  output.on('error', (error) => {
    if (isGone) return;
    isGone = true;
    if (!('code' in error && error.code === 'EPIPE')) onLost(error);
    onRoom();
  });
  return {
    write: (text: string): void => {
      if (!isGone) output.write(text);
    },
    /** Resolves when there is room for more, to false when nothing more will be taken. */
    writeAll: async (chunk: string | Uint8Array): Promise<boolean> => {
      if (!isGone && output.write(chunk) === false && output.once !== undefined) {
        await new Promise<void>((resolve) => {
          onRoom = resolve;
          output.once?.('drain', () => resolve());
        });
      }
      // An output's error comes a turn after the write that met it.
      await setImmediate();
      return !isGone;
    },
  };
}

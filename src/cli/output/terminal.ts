import { setImmediate } from 'node:timers/promises';
import { escaped } from '../../telemetry/format.ts';
import type { Scrubber } from '../../telemetry/scrubber.ts';
import type { ProgressStyle } from '../../telemetry/progress.ts';
import { jsonText, versioned } from './json-text.ts';

/** The parts of `process.stdout` that are used. */
export interface Output {
  /** `false`: no more can be written until `drain`. */
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

/** The width of a terminal that does not say its own. */
export const usualColumns = 80;

/** Writes all output for people and programs; every text except copies of stored records passes the scrubber. */
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
  // Moves up over the lines drawn before, then clears to the end of the screen.
  const eraser = (): string => (drawn > 0 ? `\u001b[${drawn}A\r\u001b[0J` : '');
  const erase = (): void => {
    if (drawn > 0) toErr(eraser());
    drawn = 0;
  };
  /** A terminal may not know its width, or report 0. */
  const widthOf = ({ columns = 0 }: Output): number =>
    [columns, Number(env['COLUMNS'])].find((one) => Number.isInteger(one) && one > 0) ?? usualColumns;
  const isLive = stderr.isTTY === true && env['TERM'] !== 'dumb' && !isJson;
  return {
    isJson,
    /** The width of a line of results; null if the output is no screen. */
    columns: (): number | null => (stdout.isTTY === true ? widthOf(stdout) : null),
    /** True once standard output failed (a full disk, for example); a reader that closes it is no loss. */
    hasLostOutput: (): boolean => isLost,
    /** Prints a result for people on stdout; nothing with `--json`. Ends each line. */
    print: (...lines: readonly string[]): void => {
      if (isJson || lines.length === 0) return;
      erase();
      toOut(text(lines));
    },
    /** Prints a result for machines, one line of JSON on stdout, only with `--json`. */
    printJson: (document: object): void => {
      if (isJson) toOut(`${jsonText(versioned(document))}\n`);
    },
    /**
     * Prints stored records on stdout, with and without `--json`, exactly: a changed copy would be no copy. On a
     * screen, terminal control characters are made visible instead. Resolves when there is room for more; false: the
     * reader has closed the output.
     */
    printRecords: (text: string): Promise<boolean> =>
      out.writeAll(stdout.isTTY === true ? escaped(text) : text),
    /** Prints the bytes of a file on stdout, unchanged. Resolves as `printRecords` does. */
    printBytes: (bytes: Uint8Array): Promise<boolean> => out.writeAll(bytes),
    /** Prints events and errors to stderr. */
    note: (...lines: readonly string[]): void => {
      if (lines.length === 0) return;
      erase();
      toErr(text(lines));
    },
    /**
     * Prints an address on stderr, with `--json` too: a person has to read it. The address is exact: it is opened, and
     * contains the id of an app, which is no secret there.
     */
    noteAddress: (what: string, address: string): void => {
      erase();
      toErr(`${what}\n`);
      err.write(`  ${escaped(address)}\n`);
    },
    prompt: (): void => toErr('> '),
    addLine: (line: string): void => toErr(`${line}\n`),
    redraw: (lines: readonly string[]): void => {
      // One write: with two, the empty screen in between would flicker.
      // The first line and the last ones: the cursor cannot move back to lines that have scrolled off the screen.
      const room = Math.max(2, (stderr.rows ?? Infinity) - 1);
      const shown = lines.length <= room ? lines : [...lines.slice(0, 1), ...lines.slice(1 - room)];
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

/** Writes nothing more to an output after its first error. A reader that closes it (`| head`) is no failure. */
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
    /** Resolves when there is room for more, to false when the output accepts no more. */
    writeAll: async (chunk: string | Uint8Array): Promise<boolean> => {
      if (!isGone && output.write(chunk) === false && output.once !== undefined) {
        await new Promise<void>((resolve) => {
          onRoom = resolve;
          output.once?.('drain', () => resolve());
        });
      }
      // An output's error arrives a turn after the write that caused it.
      await setImmediate();
      return !isGone;
    },
  };
}

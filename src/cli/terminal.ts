import type { ProgressScreen } from '../telemetry/show-progress.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import { jsonText } from './json-text.ts';

/** The parts of `process.stdout` that are used. */
export interface Output {
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** The only way to a person's or a program's eyes; every text passes the scrubber. */
export interface Terminal extends ProgressScreen {
  /** A result for people, on stdout; nothing with `--json`. Ends the line. */
  print(line: string): void;
  /** A result for machines, one line of JSON on stdout, only with `--json`. */
  printJson(value: unknown): void;
  /** What happens and what went wrong, on stderr. */
  note(line: string): void;
  readonly isJson: boolean;
  /** How wide a line of results may be; null where nobody looks at a screen. */
  columns(): number | null;
  /** True once standard output refused what it was given (a full disk, say); a reader that has gone away is no loss. */
  hasLostOutput(): boolean;
}

export interface TerminalOptions {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly scrubber: Scrubber;
  readonly isJson: boolean;
}

const defaultColumns = 80;

export function openTerminal({ stdout, stderr, env, scrubber, isJson }: TerminalOptions): Terminal {
  let drawn = 0;
  let isLost = false;
  const toErr = writer(stderr, scrubber, () => undefined);
  const toOut = writer(stdout, scrubber, (error) => {
    isLost = true;
    toErr(`Standard output cannot be written: ${error.message}\n`);
  });
  // Up over the lines drawn before, then clear to the end of the screen.
  const eraser = (): string => (drawn > 0 ? `\u001b[${drawn}A\r\u001b[0J` : '');
  const erase = (): void => {
    if (drawn > 0) toErr(eraser());
    drawn = 0;
  };
  const isLive = stderr.isTTY === true && env['TERM'] !== 'dumb' && !isJson;
  return {
    isJson,
    columns: () => (stdout.isTTY === true ? (stdout.columns ?? defaultColumns) : null),
    hasLostOutput: () => isLost,
    print: (line) => {
      if (isJson) return;
      erase();
      toOut(`${line}\n`);
    },
    printJson: (value) => {
      if (isJson) toOut(`${jsonText(value)}\n`);
    },
    note: (line) => {
      erase();
      toErr(`${line}\n`);
    },
    addLine: (line) => toErr(`${line}\n`),
    redraw: (lines) => {
      // One write: in two, the empty screen in between is seen as flicker.
      const text = eraser() + lines.map((line) => `${line}\n`).join('');
      if (text !== '') toErr(text);
      drawn = lines.length;
    },
    style: isLive
      ? () => ({ columns: stderr.columns ?? defaultColumns, hasColor: (env['NO_COLOR'] ?? '') === '' })
      : null,
  };
}

/** After its first error an output gets nothing more. A reader that has gone away (`| head`) is none to speak of. */
function writer(output: Output, scrubber: Scrubber, onLost: (error: Error) => void): (text: string) => void {
  let isGone = false;
  output.on('error', (error) => {
    if (isGone) return;
    isGone = true;
    if (!('code' in error && error.code === 'EPIPE')) onLost(error);
  });
  return (text) => {
    if (!isGone) output.write(scrubber.scrub(text));
  };
}

import { describe, expect, it } from 'vitest';
import { jsonText } from '../../../src/cli/output/json-text.ts';
import { textTable } from '../../../src/cli/output/text-table.ts';
import { openTerminal, type Output, type Terminal } from '../../../src/cli/output/terminal.ts';
import { Secret } from '../../../src/core/secret.ts';
import { createScrubber } from '../../../src/telemetry/scrubber.ts';

describe('the terminal', () => {
  it('redraws in place, and clears the live lines before it writes anything else', () => {
    const { terminal, written } = open({ isTTY: true });
    terminal.redraw(['one', 'two']);
    terminal.redraw(['three']);
    terminal.note('stop');
    terminal.redraw([]);
    expect(written.stderr).toEqual([
      'one\ntwo\n',
      '\u001b[2A\r\u001b[0Jthree\n',
      '\u001b[1A\r\u001b[0J',
      'stop\n',
    ]);
  });

  it('draws no more lines than the screen has: the first and the last ones', () => {
    const { terminal, written, stderr } = open({ isTTY: true });
    Object.assign(stderr, { rows: 4 });
    terminal.redraw(['heading', 'a', 'b', 'c', 'sums']);
    terminal.redraw([]);
    expect(written.stderr).toEqual(['heading\nc\nsums\n', '\u001b[3A\r\u001b[0J']);
  });

  it('reads the width again each time and respects NO_COLOR', () => {
    const { terminal, stderr } = open({ isTTY: true, env: { NO_COLOR: '1' } });
    expect(terminal.style?.()).toEqual({ columns: 120, hasColor: false });
    Object.assign(stderr, { columns: 30 });
    expect(terminal.style?.()).toEqual({ columns: 30, hasColor: false });
    expect(open({ isTTY: true }).terminal.style?.()).toMatchObject({ hasColor: true });
  });

  it('knows a width for results only where standard output is a terminal', () => {
    expect(open({ isTTY: true }).terminal.columns()).toBe(120);
    expect(open({ isTTY: false }).terminal.columns()).toBeNull();
  });

  it('takes the width of $COLUMNS, else 80, where the terminal does not know its own', () => {
    for (const columns of [undefined, 0]) {
      const asked = ({ COLUMNS = '' }): number | undefined => {
        const { terminal, stderr } = open({ isTTY: true, env: { COLUMNS } });
        Object.assign(stderr, { columns });
        return terminal.style?.().columns;
      };
      expect([asked({ COLUMNS: '132' }), asked({ COLUMNS: 'wide' }), asked({})]).toEqual([132, 80, 80]);
    }
  });

  it('is not live in a pipe, on a dumb terminal, or with --json', () => {
    expect(open({ isTTY: false }).terminal.style).toBeNull();
    expect(open({ isTTY: true, env: { TERM: 'dumb' } }).terminal.style).toBeNull();
    expect(open({ isTTY: true, isJson: true }).terminal.style).toBeNull();
  });

  it('scrubs registered secrets on every way out', () => {
    for (const isJson of [true, false]) {
      const { terminal, written, scrubber } = open({ isTTY: true, isJson });
      scrubber.register(new Secret('planted-secret'));
      terminal.print('planted-secret');
      terminal.printJson({ deep: ['planted-secret'] });
      terminal.note('planted-secret');
      terminal.addLine('planted-secret');
      terminal.redraw(['planted-secret']);
      const all = [...written.stdout, ...written.stderr].join('');
      expect(all).not.toContain('planted');
      expect(all).toContain('[secret]');
    }
  });

  it('drops the remaining output silently when the reader has gone', () => {
    const { terminal, written, fail } = open({ isTTY: false });
    terminal.print('first');
    fail(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    terminal.print('second');
    expect(written.stdout).toEqual(['first\n']);
    expect(written.stderr).toEqual([]);
    expect(terminal.hasLostOutput()).toBe(false);
  });

  it('says that its output cannot be written, and remembers it', () => {
    const { terminal, written, fail } = open({ isTTY: false });
    terminal.print('first');
    fail(Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }));
    expect(written.stderr.join('')).toContain('no space left on device');
    expect(terminal.hasLostOutput()).toBe(true);
  });
});

describe('JSON for machines', () => {
  it('keeps every digit, turns maps and sets into data, and shows no secret', () => {
    const value = {
      id: 9_007_199_254_740_993n,
      map: new Map([['a', new Set([1])]]),
      secret: new Secret('x'),
      at: new Date(0),
      gone: undefined,
      odd: Number.NaN,
    };
    expect(jsonText(value)).toBe(
      '{"id":9007199254740993,"map":{"a":[1]},"secret":"[secret]","at":"1970-01-01T00:00:00.000Z","odd":null}',
    );
  });

  it('keeps a member called __proto__ as data', () => {
    expect(jsonText(JSON.parse('{"__proto__":{"polluted":true}}'))).toBe('{"__proto__":{"polluted":true}}');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('a table', () => {
  it('aligns, leaves out empty columns, and makes cells inert', () => {
    const columns = [
      { title: 'name', align: 'left' },
      { title: 'rows', align: 'right' },
      { title: 'notes', align: 'left' },
    ] as const;
    expect(
      textTable(columns, [
        ['🎉', '1,000', ''],
        ['a\u001b[31m', '5', ''],
      ]),
    ).toEqual(['name     rows', '🎉      1,000', 'a�[31m      5']);
  });
});

function open(options: {
  readonly isTTY: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly isJson?: boolean;
}): {
  readonly terminal: Terminal;
  readonly written: { readonly stdout: string[]; readonly stderr: string[] };
  readonly stderr: Output;
  readonly scrubber: ReturnType<typeof createScrubber>;
  readonly fail: (error: Error) => void;
} {
  const written = { stdout: [] as string[], stderr: [] as string[] };
  const listeners: ((error: Error) => void)[] = [];
  const output = (name: 'stdout' | 'stderr'): Output => ({
    write: (text) => written[name].push(String(text)),
    on: (_, listener) => name === 'stdout' && listeners.push(listener),
    isTTY: options.isTTY,
    columns: 120,
  });
  const stderr = output('stderr');
  const scrubber = createScrubber();
  const terminal = openTerminal({
    stdout: output('stdout'),
    stderr,
    env: options.env ?? {},
    scrubber,
    isJson: options.isJson ?? false,
  });
  return {
    terminal,
    written,
    stderr,
    scrubber,
    fail: (error) => listeners.forEach((listen) => listen(error)),
  };
}

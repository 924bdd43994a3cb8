/**
 * Draws docs/demo.svg: runs the demo in a terminal of tmux and writes what stands on it as SVG. `npm run picture`;
 * needs tmux and bash.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { displayWidth } from '../../src/cli/output/text-table.ts';

const columns = 110;
const rows = 120;
const typed = 'connector-sync demo';
const last = 'connector-sync init';
const timeoutMs = 120_000;
/** Pixels. */
const cell = { width: 8, height: 18, size: 13, margin: 16 } as const;

const lines = shownPart(await terminalAfterDemo());
writeFileSync('docs/demo.svg', svgOf(lines));

/** With escape sequences for colours. */
async function terminalAfterDemo(): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-picture-'));
  const tmux = (...args: readonly string[]): string =>
    execFileSync('tmux', ['-S', join(folder, 'socket'), ...args], { encoding: 'utf8' });
  const start = join(folder, 'bashrc');
  writeFileSync(
    start,
    `PS1='$ '\ncd ${folder}\nconnector-sync() { node ${resolve('dist/main.js')} "$@"; }\nclear\n`,
  );
  tmux(
    '-f',
    '/dev/null',
    'new-session',
    '-d',
    '-x',
    String(columns),
    '-y',
    String(rows),
    `bash --rcfile ${start}`,
  );
  try {
    tmux('set-option', 'status', 'off');
    tmux('send-keys', typed, 'Enter');
    const endMs = Date.now() + timeoutMs;
    for (;;) {
      const screen = tmux('capture-pane', '-p', '-e').split('\n');
      if (screen.some((line) => line.includes(last))) return screen;
      if (Date.now() > endMs) {
        throw new Error(`the demo did not end within ${timeoutMs} ms:\n${screen.join('\n')}`);
      }
      await setTimeout(200);
    }
  } finally {
    tmux('kill-server');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Both tables and one question: all of it would be too tall to read. */
function shownPart(screen: readonly string[]): readonly string[] {
  const at = (text: string): number => {
    const found = screen.findIndex((line) => line.includes(text));
    if (found < 0) throw new Error(`expected "${text}" in what the demo prints`);
    return found;
  };
  const totals = screen.indexOf('', at('rows written'));
  return [
    ...screen.slice(at(typed), totals),
    '',
    ...screen.slice(at('Which campaigns'), at('Which wiki pages')),
  ];
}

function svgOf(texts: readonly string[]): string {
  const width = columns * cell.width + 2 * cell.margin;
  const height = texts.length * cell.height + 2 * cell.margin;
  const drawn = texts.flatMap((text, row) =>
    piecesOf(text).map(({ column, style, content }) => {
      const x = cell.margin + column * cell.width;
      const y = cell.margin + row * cell.height + cell.size;
      return `<text x="${x}" y="${y}"${style === '' ? '' : ` class="${style}"`}>${escaped(content)}</text>`;
    }),
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>connector-sync demo in a terminal</title>
<style>
  text { font: ${cell.size}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d6dbe0; white-space: pre; }
  .bold { font-weight: bold; }
  .dim { fill: #8b949e; }
  .yellow { fill: #e3b341; }
</style>
<rect width="${width}" height="${height}" rx="8" fill="#161b22"/>
${drawn.join('\n')}
</svg>
`;
}

interface Piece {
  readonly column: number;
  readonly style: string;
  readonly content: string;
}

const styles: Readonly<Record<string, string>> = { 1: 'bold', 2: 'dim', 33: 'yellow' };

/** Split where colours change and at wide gaps, so that columns stand one below the other in any font. */
function piecesOf(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let column = 0;
  let style = '';
  // oxlint-disable-next-line no-control-regex -- colours are control characters.
  for (const [part, codes] of text.matchAll(/\u001b\[([\d;]*)m|[^\u001b ]+(?: [^\u001b ]+)*| +/g)) {
    if (codes !== undefined) style = styles[codes.split(';').at(-1) ?? ''] ?? '';
    else {
      if (part.trim() !== '') pieces.push({ column, style, content: part });
      column += displayWidth(part);
    }
  }
  return pieces;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Imported } from '../../../definitions/import/import-service.ts';
import type { ModeName } from '../../../definitions/import/modes.ts';
import { furtherListings, unlistedEntities } from '../../../definitions/import/listings.ts';
import { kindText, outcomeText, totalsOf, totalsText } from '../../../definitions/import/report.ts';
import type { ServiceFile } from '../../../definitions/import/service-file.ts';
import { parseDefinition } from '../../../definitions/load-definitions.ts';
import { firstNames } from '../../../definitions/suggest-name.ts';
import { counted } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';
import { fittingTable, leftColumns, wrapped } from '../../output/text-table.ts';
import type { WrittenFile } from '../publish/write-generated.ts';

/** What became of every entity, in each mode. */
export function showImports(
  { terminal }: CommandContext,
  service: ServiceFile,
  imports: readonly Imported[],
): void {
  const width = terminal.columns();
  for (const one of imports) {
    const totals = totalsOf(one);
    const entities = counted(totals.entities, 'entity', 'entities');
    terminal.print(`${service.title} (${one.mode}): ${entities}, ${totalsText(totals)}.`);
    const rows = [...one.outcomes].map(([entity, outcome]) => [
      entity,
      kindText(outcome),
      outcomeText(outcome),
    ]);
    terminal.print(...fittingTable(leftColumns('entity', 'outcome', 'details'), rows, width), '');
  }
  const unlisted = firstNames(unlistedEntities(service).map(({ entity }) => entity));
  const further = firstNames(furtherListings(service).map(({ entity }) => entity));
  if (unlisted !== '') terminal.print(...wrapped(`Not listable, by the file: ${unlisted}.`, width));
  if (further !== '') terminal.print(...wrapped(`With a further list that is not read: ${further}.`, width));
}

/** What was written, and what a person does next. */
export function showNext(
  { terminal, cwd, program }: CommandContext,
  folder: string,
  imports: readonly Imported[],
  written: readonly WrittenFile[],
  notes: readonly string[],
): void {
  const shown = (path: string): string => relative(cwd, path) || '.';
  for (const { path, outcome } of written) {
    const file = shown(join(folder, path));
    const what =
      outcome === 'written' || outcome === 'unchanged'
        ? outcome
        : `you edited it; the new text is in ${file}.new`;
    terminal.print(`${file}: ${what}`);
  }
  for (const note of notes) terminal.print(...wrapped(note, terminal.columns()));
  if (written.length === 0) {
    terminal.print('No definition was written: no entity is converted.');
    return;
  }
  for (const { mode, definition, outcomes } of imports) {
    if (definition === null) continue;
    const path = shown(join(folder, `${definition.name}.yaml`));
    const [entity = ''] = [...outcomes].find(([, { kind }]) => kind === 'converted') ?? [];
    const kept = readFileSync(join(folder, `${definition.name}.yaml`), 'utf8');
    for (const { line, text } of parseDefinition(path, kept).definition?.todos ?? []) {
      terminal.print(...wrapped(`! ${path}:${line}: TODO ${text}`, terminal.columns()));
    }
    const lines =
      mode === 'hosted'
        ? [`definitions show ${path}`, `definitions check ${path}`, 'init --base-url <address of the API>']
        : [`definitions try ${path} ${entity}`, `init --direct ${path}`];
    terminal.print(`Next, ${nextOf[mode]}:`, ...lines.map((line) => `  ${program} ${line}`));
  }
  const rate =
    'The limit of 2 calls a second is guessed: if the service allows more, raise rateLimit in the file.';
  terminal.print(...wrapped(rate, terminal.columns()));
}

const nextOf: Readonly<Record<ModeName, string>> = {
  hosted: 'for connectors behind an API',
  direct: 'to read a page of the service without storing it, and to write a config for "sync"',
};

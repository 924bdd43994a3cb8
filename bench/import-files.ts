import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { importService, totalsOf } from '../src/definitions/import/import-service.ts';
import type { Operation } from '../src/definitions/import/operation.ts';
import { readServiceFile } from '../src/definitions/import/service-file.ts';

/**
 * What an import makes of each `*.yaml` of a folder, as the table of docs/guides/import.md: entities; converted, with a
 * TODO and refused in either mode; what is open.
 */
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('expected a folder of files: import-files.ts <folder>');

const modes = ['hosted', 'direct'] as const;
type Totals = ReturnType<typeof totalsOf>;
const sums = { hosted: [] as Totals[], direct: [] as Totals[] };
const signIns = { found: 0, written: 0 };

console.log('| file | entities | hosted | direct | open |\n| --- | --- | --- | --- | --- |');
for (const name of readdirSync(folder).filter((one) => one.endsWith('.yaml'))) {
  const service = readServiceFile(join(folder, name));
  const open: string[] = [];
  const cells = modes.map((mode) => {
    const imported = importService(service, mode);
    const totals = totalsOf(imported);
    sums[mode].push(totals);
    for (const outcome of imported.outcomes.values()) {
      if (outcome.kind === 'converted') {
        open.push(...outcome.plan.open.map(({ at }) => String(at[2] ?? at[1])));
      }
    }
    if (imported.ways.some(({ auth }) => auth?.['kind'] === 'authorizationCode')) {
      signIns.found += 1;
      if (imported.definition !== null) signIns.written += 1;
    }
    return shown(totals);
  });
  const { size } = new Set(service.operations.filter(isListing).map(({ entity }) => entity));
  console.log(`| ${[basename(name, '.yaml'), size, ...cells, openText(open)].join(' | ')} |`);
}

for (const mode of modes) {
  const all = sums[mode];
  const add = (part: keyof Totals): number => all.reduce((sum, totals) => sum + totals[part], 0);
  const total = {
    entities: add('entities'),
    converted: add('converted'),
    open: add('open'),
    refused: add('refused'),
  };
  const most = all.filter(({ entities, converted }) => converted / entities >= 0.8).length;
  console.log(
    `${mode}: ${all.length} files, ${total.entities} entities = ${shown(total)}; at least 80 % of the entities in ${most} files`,
  );
}
console.log(`direct: ${signIns.found} files with a sign-in by a person, ${signIns.written} of them written`);
/** Converted without a TODO, with one, refused. */
function shown({ converted, open, refused }: Totals): string {
  return `${converted - open} + ${open} + ${refused}`;
}

function isListing({ action }: Operation): boolean {
  return action === 'list' || action === 'api_search';
}

/** `fixedParams 1, key 3`: how many TODOs of each kind, in both modes together. */
function openText(kinds: readonly string[]): string {
  return [...new Set(kinds)]
    .toSorted()
    .map((kind) => `${kind} ${kinds.filter((one) => one === kind).length}`)
    .join(', ');
}

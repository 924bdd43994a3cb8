import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { noAnswers } from '../src/definitions/import/answers.ts';
import { importService, type Imported } from '../src/definitions/import/import-service.ts';
import { readManifest } from '../src/definitions/import/manifest.ts';
import { totalsOf, type Totals } from '../src/definitions/import/report.ts';
import { readServiceFile, type ServiceFile } from '../src/definitions/import/service-file.ts';

/**
 * What an import makes of each `*.yaml` of a folder without any answer: entities, converted, asked about, refused. With
 * a second folder of low-code manifests of the same names: how many of the keys agree with those.
 */
const [folder, manifests] = process.argv.slice(2);
if (folder === undefined) throw new Error('expected a folder of files: import-files.ts <folder> [manifests]');

const modes = ['hosted', 'direct'] as const;
const sums = { hosted: [] as Totals[], direct: [] as Totals[] };
const keys = { same: 0, others: [] as string[] };

for (const name of readdirSync(folder).filter((one) => one.endsWith('.yaml'))) {
  const service = readServiceFile(join(folder, name));
  const cells = modes.map((mode) => {
    const imported = importService(service, mode, { answers: noAnswers, manifest: null, only: null });
    const totals = totalsOf(imported);
    sums[mode].push(totals);
    if (mode === 'direct' && manifests !== undefined) compareKeys(service, imported, join(manifests, name));
    return `${mode} ${shown(totals)}`;
  });
  console.log(`${basename(name, '.yaml').padEnd(28)} ${cells.join('   ')}`);
}

for (const mode of modes) {
  const all = sums[mode];
  const add = (part: keyof Totals): number => all.reduce((sum, totals) => sum + totals[part], 0);
  const total = {
    entities: add('entities'),
    converted: add('converted'),
    asked: add('asked'),
    refused: add('refused'),
  };
  const most = all.filter(({ entities, converted, asked }) => (converted + asked) / entities >= 0.8).length;
  console.log(
    `${mode}: ${all.length} files, ${shown(total)}; at least 80 % of the entities in ${most} files`,
  );
}
if (manifests !== undefined) {
  console.log(`keys that agree with the manifests: ${keys.same} of ${keys.same + keys.others.length}`);
  for (const other of keys.others) console.log(`  ${other}`);
}

/** `12 = 9 + 2 + 1`: converted, asked about, refused. */
function shown({ entities, converted, asked, refused }: Totals): string {
  return `${String(entities).padStart(3)} = ${converted} + ${asked} + ${refused}`.padEnd(20);
}

/** Columns that a parent fills belong to the key of a row, and to no stream. */
function compareKeys({ streams }: ServiceFile, { outcomes }: Imported, file: string): void {
  if (!readdirSync(join(file, '..')).includes(basename(file))) return;
  const manifest = readManifest(file);
  for (const [entity, outcome] of outcomes) {
    const stated = manifest.keyOf(streams.get(entity) ?? entity);
    if (outcome.kind !== 'converted' || stated === null) continue;
    const { key, injected, fields, parents } = outcome.plan;
    const above = new Set([...injected.keys(), ...parents.flatMap(({ params }) => [...params.keys()])]);
    const own = key.filter((name) => !above.has(name));
    const sent = own.map((name) => fields.declared.find((field) => field.name === name)?.sent ?? name);
    const rest = stated.filter((name) => !above.has(name));
    if (sent.toSorted().join(' ') === rest.toSorted().join(' ')) keys.same += 1;
    else {
      keys.others.push(
        `${basename(file)} ${entity}: ${sent.join(', ')}, the manifest has ${stated.join(', ')}`,
      );
    }
  }
}

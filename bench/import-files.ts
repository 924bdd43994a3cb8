import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { noAnswers } from '../src/definitions/import/answers.ts';
import { importService, type Imported } from '../src/definitions/import/import-service.ts';
import { readManifest } from '../src/definitions/import/manifest.ts';
import type { Question } from '../src/definitions/import/answers.ts';
import type { Operation } from '../src/definitions/import/operation.ts';
import { questionsIn, totalsOf, type Totals } from '../src/definitions/import/report.ts';
import { readServiceFile, type ServiceFile } from '../src/definitions/import/service-file.ts';
import { distinct } from '../src/definitions/import/write-answers.ts';

/**
 * What an import makes of each `*.yaml` of a folder without any answer, as the table of docs/guides/import.md: entities;
 * converted, asked about and refused in either mode; what is asked. With a second folder of low-code manifests of the same names: how many of the keys agree with those.
 */
const [folder, manifests] = process.argv.slice(2);
if (folder === undefined) throw new Error('expected a folder of files: import-files.ts <folder> [manifests]');

const modes = ['hosted', 'direct'] as const;
const sums = { hosted: [] as Totals[], direct: [] as Totals[] };
const keys = { same: 0, others: [] as string[] };
const signIns = { found: 0, written: 0 };

console.log('| file | entities | hosted | direct | asked |\n| --- | --- | --- | --- | --- |');
for (const name of readdirSync(folder).filter((one) => one.endsWith('.yaml'))) {
  const service = readServiceFile(join(folder, name));
  const questions: Question[] = [];
  const cells = modes.map((mode) => {
    const imported = importService(service, mode, { answers: noAnswers, manifest: null, only: null });
    const totals = totalsOf(imported);
    sums[mode].push(totals);
    if (mode === 'direct' && manifests !== undefined) compareKeys(service, imported, join(manifests, name));
    questions.push(...questionsIn([imported]));
    if (imported.ways.some(({ auth }) => auth?.['kind'] === 'authorizationCode')) {
      signIns.found += 1;
      if (imported.definition !== null) signIns.written += 1;
    }
    return shown(totals);
  });
  const { size } = new Set(service.operations.filter(isListing).map(({ entity }) => entity));
  console.log(`| ${[basename(name, '.yaml'), size, ...cells, askedText(questions)].join(' | ')} |`);
}

for (const mode of modes) {
  const all = sums[mode];
  const add = (part: keyof Totals): number => all.reduce((sum, totals) => sum + totals[part], 0);
  const total = {
    entities: add('entities'),
    converted: add('converted'),
    asked: add('asked'),
    refused: add('refused'),
    notChosen: 0,
  };
  const most = all.filter(({ entities, converted, asked }) => (converted + asked) / entities >= 0.8).length;
  console.log(
    `${mode}: ${all.length} files, ${total.entities} entities = ${shown(total)}; at least 80 % of the entities in ${most} files`,
  );
}
console.log(
  `direct: ${signIns.found} files with a sign-in by a person, ${signIns.written} of them written without an answer`,
);
if (manifests !== undefined) {
  console.log(`keys that agree with the manifests: ${keys.same} of ${keys.same + keys.others.length}`);
  for (const other of keys.others) console.log(`  ${other}`);
}

/** Converted, asked about, refused. */
function shown({ converted, asked, refused }: Totals): string {
  return `${converted} + ${asked} + ${refused}`;
}

function isListing({ action }: Operation): boolean {
  return action === 'list' || action === 'api_search';
}

/** `key 3, value 1`: how many questions of each kind, in both modes together. */
function askedText(questions: readonly Question[]): string {
  const kinds = distinct(questions).map(({ kind }) => (kind === 'ownValue' ? 'value' : kind));
  return [...new Set(kinds)]
    .toSorted()
    .map((kind) => `${kind} ${kinds.filter((one) => one === kind).length}`)
    .join(', ');
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

import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import type { Answers, WrongAnswer } from './answers.ts';
import { listingsOf, unlistedEntities } from './listings.ts';
import { listIn, textIn } from './parts.ts';
import type { ServiceFile } from './service-file.ts';

/** Answers to what the file does not have: mostly a slip, which would otherwise change nothing and tell nothing. */
export function unusedAnswers(answers: Answers, service: ServiceFile): readonly WrongAnswer[] {
  const listings = new Map(listingsOf(service).map((list) => [list.entity, list]));
  const names = (entity: string): readonly string[] =>
    (listings.get(entity)?.params ?? []).map(({ name }) => name);
  const unused: WrongAnswer[] = [];
  const check = (what: string, at: YamlPath, given: object, known: readonly string[]): void => {
    for (const name of Object.keys(given)) {
      if (!known.includes(name)) unused.push({ at: [...at, name], why: noSuch(what, name, known) });
    }
  };
  const url = textIn(listIn(service.root, 'servers')[0], 'url') ?? '';
  const inAddress = [...url.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  check('part of the address', ['server'], answers.server, inAddress);
  check('parameter of a listing', ['values'], answers.values, [...listings.keys()].flatMap(names));
  for (const [entity, { values, records }] of Object.entries(answers.entities)) {
    const at = ['entities', entity];
    const list = listings.get(entity);
    if (list === undefined) {
      const unlisted = unlistedEntities(service).find((one) => one.entity === entity);
      unused.push({ at, why: unlisted?.why ?? noSuch('entity', entity, listings.keys()) });
      continue;
    }
    check(`parameter of ${entity}`, [...at, 'values'], values, names(entity));
    if (records !== undefined && list.places.length === 0) {
      unused.push({
        at: [...at, 'records'],
        why: 'the file says where its records are: leave the answer out',
      });
    }
  }
  return unused;
}

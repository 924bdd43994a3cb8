import type { EntityPlan } from './plan-entity.ts';
import { wordsOf } from './parts.ts';

/** What could make reading cheaper or quieter, and what the file does not prove: for a person to decide. */
export function suggestionsFor({ fields, list, key, paging }: EntityPlan): readonly string[] {
  const params = list.params.filter(({ place, type }) => place === 'query' && type === 'string');
  const named = (form: RegExp) => fields.declared.find(({ sent }) => form.test(wordsOf(sent).join(' ')));
  const found: string[] = [];
  const changed = named(/^(?:updated|modified|last (?:updated|modified|edited))(?: (?:at|time|date|on))?$/);
  const since = params.find(({ name }) => {
    const words = wordsOf(name).join(' ');
    return /\b(?:updated|modified)\b.*\b(?:since|after|min|from|gte?)\b/.test(words);
  });
  if (since !== undefined && changed?.type === 'string') {
    found.push(
      `incremental: { kind: since, field: ${changed.name}, sinceParam: ${since.name}, lookbackMs: 3600000 }`,
    );
  }
  const sort = list.params.find(({ name }) =>
    /^(?:sort|sort by|order by|sort field|order)$/.test(wordsOf(name).join(' ')),
  );
  const created = named(/^created(?: (?:at|time|date|on))?$/);
  if (sort !== undefined && created !== undefined && paging.kind !== 'single') {
    found.push(`order: { field: ${created.name}, params: { ${sort.name}: ... } }, if it sorts ascending`);
  }
  const nested = named(/^has children$/);
  if (nested !== undefined) {
    found.push(`recursive, by ${nested.name}: listings inside listings are not read without it`);
  }
  const links = fields.declared.filter(
    ({ sent }) => /^_?links?$|^self$|^_embedded$/i.test(sent) && !key.includes(sent),
  );
  if (links.length > 0) found.push(`ignored: [${links.map(({ sent }) => sent).join(', ')}]`);
  const counters = fields.declared.filter(
    ({ sent, type, name }) =>
      (type === 'integer' || type === 'number' || type === 'string') &&
      !key.includes(name) &&
      /(?:^| )(?:count|counts)$|^(?:last (?:seen|activity|login)|avatar)\b/.test(wordsOf(sent).join(' ')),
  );
  if (counters.length > 0) found.push(`volatile: [${counters.map(({ name }) => name).join(', ')}]`);
  return found;
}

import type { Note } from '../check-names.ts';
import type { DefinitionFile } from '../definition-file.ts';
import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import { checkAuthentications } from './check-authentication.ts';
import { checkEntityRequests, checkHeaders, checkRequest } from './check-requests.ts';
import { pathText } from './sent-texts.ts';
import type { UpstreamFile } from './upstream-file.ts';

/**
 * Holds `upstream:` against itself and against the credentials and entities of its definition; every problem goes to
 * `note`.
 */
export function checkUpstream(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const noteHere: Note = (at, message, ...restsOn) =>
    note(['upstream', ...at], message, ...restsOn.map((place) => ['upstream', ...place]));
  checkAuthentications(file, upstream, note);
  checkHeaders(file, upstream, upstream.headers, [], noteHere);
  checkRequest(upstream.check, ['check'], noteHere);
  checkHeaders(file, upstream, upstream.check.headers, ['check'], noteHere);
  checkErrors(file, upstream, note);
  checkEntities(file, upstream, note);
}

function checkErrors(file: DefinitionFile, { errors }: UpstreamFile, note: Note): void {
  const known = Object.keys(file.entities);
  errors.forEach((rule, index) => {
    const at = ['upstream', 'errors', index];
    const { status, where, contains, hasHeader, lacksHeader, entity } = rule;
    const conditions = [status, contains, hasHeader, lacksHeader].filter((one) => one !== null);
    if (conditions.length === 0 && where.length === 0) {
      const message = 'expected a condition: status, where, contains, hasHeader or lacksHeader';
      note(at, message, at);
    }
    for (const { path } of where) {
      const text = path.join('.');
      pathText(text, (problem) => note([...at, 'where', text], problem));
    }
    if (entity !== null && !known.includes(entity)) {
      note([...at, 'entity'], noSuch('entity', entity, known), ['entities', entity]);
    }
  });
}

/** What has requests is an entity, and there is one. */
function checkEntities(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const at: YamlPath = ['upstream', 'entities'];
  const known = Object.keys(file.entities);
  for (const name of Object.keys(upstream.entities)) {
    if (!known.includes(name)) note([...at, name], noSuch('entity', name, known), ['entities', name]);
  }
  for (const [name, entity] of Object.entries(file.entities)) {
    const requests = Object.hasOwn(upstream.entities, name) ? upstream.entities[name] : undefined;
    if (requests !== undefined) checkEntityRequests(file, upstream, name, requests, entity, note);
  }
  if (Object.keys(upstream.entities).length === 0) {
    note(at, 'expected at least one entity: say how its records are asked for');
  }
}

import type { Note } from '../check-names.ts';
import type { DefinitionFile } from '../definition-file.ts';
import type { YamlPath } from '../read-yaml.ts';
import { noSuch } from '../suggest-name.ts';
import { checkAuthentications } from './check-authentication.ts';
import { checkEntityRequests } from './check-requests.ts';
import { checkHeader, checkHeaderName, checkPath, checkRequest, checkTemplateUrl } from './check-sent.ts';
import type { UpstreamFile } from './upstream-file.ts';

/**
 * Holds `upstream:` against itself and against the credentials and entities of its definition; every problem goes to
 * `note`.
 */
export function checkUpstream(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const noteHere: Note = (at, message, ...restsOn) =>
    note(['upstream', ...at], message, ...restsOn.map((place) => ['upstream', ...place]));
  const { baseUrl, check, headers } = upstream;
  const inBase = checkTemplateUrl(baseUrl, ['baseUrl'], noteHere) ?? [];
  if (baseUrl.endsWith('/')) noteHere(['baseUrl'], 'expected no / at its end: every path begins with one');
  checkAuthentications(file, upstream, inBase, note);
  for (const [name, value] of Object.entries(headers)) checkHeader(name, value, ['headers', name], noteHere);
  checkRequest(check, ['check'], noteHere);
  for (const path of check.identity) checkPath(path, ['check', 'identity'], noteHere);
  if (check.name !== null) checkPath(check.name, ['check', 'name'], noteHere);
  checkAnswers(upstream, noteHere);
  checkErrors(file, upstream, note);
  checkEntities(file, upstream, note);
}

/** Where the texts of errors are, and what says how long to wait. */
function checkAnswers({ message, failed, retryAfter, remaining }: UpstreamFile, note: Note): void {
  message.forEach((path, index) => checkPath(path, ['message', index], note));
  if (failed !== null) {
    checkPath(failed.path, ['failed', 'path'], note);
    if (failed.code !== null) checkPath(failed.code, ['failed', 'code'], note);
  }
  retryAfter.forEach(({ header, format, seconds }, index) => {
    const at = ['retryAfter', index];
    const isHeader = header !== undefined && format !== undefined;
    if (seconds === undefined ? !isHeader : header !== undefined || format !== undefined) {
      note(at, 'expected header and format, or seconds alone');
    }
    if (header !== undefined) checkHeaderName(header, [...at, 'header'], note);
  });
  if (remaining === null) return;
  checkHeaderName(remaining.header, ['remaining', 'header'], note);
  checkHeaderName(remaining.reset.header, ['remaining', 'reset', 'header'], note);
}

function checkErrors(file: DefinitionFile, { errors }: UpstreamFile, note: Note): void {
  const known = Object.keys(file.entities);
  errors.forEach((rule, index) => {
    const at = ['upstream', 'errors', index];
    const { status, where, contains, hasHeader, lacksHeader, entity } = rule;
    const conditions = [status, contains, hasHeader, lacksHeader].filter((one) => one !== null);
    if (conditions.length === 0 && Object.keys(where).length === 0) {
      const message = 'expected a condition: status, where, contains, hasHeader or lacksHeader';
      note(at, message, at);
    }
    for (const path of Object.keys(where)) checkPath(path, [...at, 'where', path], note);
    if (hasHeader !== null) checkHeaderName(hasHeader, [...at, 'hasHeader'], note);
    if (lacksHeader !== null) checkHeaderName(lacksHeader, [...at, 'lacksHeader'], note);
    if (entity !== null && !known.includes(entity)) {
      note([...at, 'entity'], noSuch('entity', entity, known), ['entities', entity]);
    }
  });
}

/** Every entity has its requests, and nothing else has. */
function checkEntities(file: DefinitionFile, upstream: UpstreamFile, note: Note): void {
  const at: YamlPath = ['upstream', 'entities'];
  const known = Object.keys(file.entities);
  for (const name of Object.keys(upstream.entities)) {
    if (!known.includes(name)) note([...at, name], noSuch('entity', name, known), ['entities', name]);
  }
  for (const [name, entity] of Object.entries(file.entities)) {
    const requests = Object.hasOwn(upstream.entities, name) ? upstream.entities[name] : undefined;
    if (requests !== undefined) checkEntityRequests(upstream, name, requests, entity, note);
    else note(at, `is missing ${name}: say how its records are asked for`, [...at, name], ['entities', name]);
  }
}

import type { Access } from '../routes/endpoint.ts';
import type { JsonSchema, Operation, Parameter } from './describe-operation.ts';
import { markup, type Markup, nothing, prose } from './markup.ts';
import type { OpenApiDocument } from './open-api-document.ts';
import { schemaRows, typeText } from './schema-rows.ts';

interface SectionOf {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly document: OpenApiDocument;
  readonly baseUrl: string;
}

/** One endpoint: who may call it, what it takes, what it gives, and a request to copy. */
export function operationSection({ method, path, operation, document, baseUrl }: SectionOf): Markup {
  const { schemas } = document.components;
  const body = operation.requestBody?.content['application/json'].schema;
  return markup`<section id="${operation.operationId}">
    <h3>${operation.summary}</h3>
    <p class="address"><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></p>
    <p class="access">${callers[operation['x-access']]}</p>
    ${operation.description.split('\n\n').map((paragraph) => markup`<p>${prose(paragraph)}</p> `)}
    ${parameterTable(operation.parameters, schemas)}
    ${
      body === undefined
        ? nothing
        : markup`<h4>Body</h4>
            ${fieldTable(schemaRows(body, schemas), (isRequired) => markup` ${requiredMark(isRequired)}`)}`
    }
    <h4>Example</h4>
    <pre><code>${exampleCurl(method, path, operation, baseUrl)}</code></pre>
    <h4>Answers</h4>
    ${answerTable(operation)}
    ${Object.entries(operation.responses).map(([status, { content }]) => successDetail(status, content, schemas))}
  </section> `;
}

const callers: Readonly<Record<Access, string>> = {
  public: 'Anybody may call it: it needs no token.',
  application: 'For application tokens. A scoped token is refused.',
  scoped: 'For scoped tokens. An application token is refused.',
  workspace: 'For application tokens, and for scoped tokens within their workspace.',
};

type Schemas = Readonly<Record<string, JsonSchema>>;

function parameterTable(parameters: readonly Parameter[], schemas: Schemas): Markup {
  if (parameters.length === 0) return nothing;
  return markup`<h4>Parameters</h4>
    <div class="wide" tabindex="0">
      <table>
        ${parameters.map(
          ({ name, in: place, required, description = '', deprecated, schema }) =>
            markup`<tr>
              <td><code>${name}</code> ${requiredMark(required)}</td>
              <td class="type">${place}, ${typeText(schema, schemas)}${bounds(schema)}</td>
              <td>${prose(`${deprecated === true ? 'Deprecated. ' : ''}${description}`)}</td>
            </tr> `,
        )}
      </table>
    </div> `;
}

function bounds({ minimum, maximum, default: preset }: JsonSchema): string {
  const limits =
    typeof minimum === 'number' && typeof maximum === 'number' ? `, ${minimum} to ${maximum}` : '';
  return `${limits}${typeof preset === 'number' ? `, default ${preset}` : ''}`;
}

/** `mark` comes behind the name of a field that is required, or not. */
function fieldTable(
  rows: ReturnType<typeof schemaRows>,
  mark: (isRequired: boolean) => Markup = () => nothing,
): Markup {
  return markup`<div class="wide" tabindex="0">
    <table>
      ${rows.map(
        ({ path, type, isRequired, description }) =>
          markup`<tr>
            <td><code>${path}</code>${mark(isRequired)}</td>
            <td class="type">${type}</td>
            <td>${prose(description)}</td>
          </tr> `,
      )}
    </table>
  </div> `;
}

function requiredMark(isRequired: boolean): Markup {
  return isRequired ? markup`<span class="required">required</span>` : nothing;
}

function answerTable({ responses }: Operation): Markup {
  return statusTable(
    Object.entries(responses)
      .filter(([status]) => !(status in everywhere))
      .map(([status, { description }]) => [status, description]),
  );
}

/** Refusals that mean the same at every endpoint: told once, at the top. */
const everywhere: Readonly<Record<string, string>> = {
  413: 'The body is larger than the service takes.',
  415: 'The body does not say that it is application/json.',
  421: 'The Host header names a host that this service does not answer for.',
  429: 'Too many requests; the header Retry-After says how many seconds to wait.',
  500: 'The service failed.',
};

export function everywhereTable(): Markup {
  return statusTable(Object.entries(everywhere));
}

function statusTable(rows: readonly (readonly [string, string])[]): Markup {
  return markup`<div class="wide" tabindex="0">
    <table class="status">
      ${rows.map(
        ([status, description]) =>
          markup`<tr>
            <td><code>${status}</code></td>
            <td>${prose(description)}</td>
          </tr> `,
      )}
    </table>
  </div> `;
}

function successDetail(
  status: string,
  content: Operation['responses'][string]['content'],
  schemas: Schemas,
): Markup {
  if (!status.startsWith('2')) return nothing;
  const pieces = Object.entries(content).map(([mediaType, { schema }]) => {
    const rows = schemaRows(schema, schemas);
    // In answers nearly every field is always there: a mark at each would say nothing.
    if (rows.length > 0) {
      return markup`<details>
        <summary>Fields of the ${status} answer (${mediaType})</summary>
        ${fieldTable(rows)}
      </details> `;
    }
    const { description } = schema;
    return typeof description === 'string'
      ? markup`<p><code>${mediaType}</code> ${prose(description)}</p> `
      : nothing;
  });
  return markup`${pieces}`;
}

/** The example of an operation as a command for a shell, with `$TOKEN` for the token. */
function exampleCurl(method: string, path: string, operation: Operation, baseUrl: string): string {
  const query = operation.parameters
    .filter(({ in: place, example }) => place === 'query' && example !== undefined)
    .map(({ name, example = '' }) => `${name}=${encodeURIComponent(example)}`)
    .join('&');
  const filled = operation.parameters
    .filter(({ in: place }) => place === 'path')
    .reduce((text, { name, example }) => text.replace(`{${name}}`, String(example ?? name)), path);
  const url = `${baseUrl}${filled}${query === '' ? '' : `?${query}`}`;
  const body = operation.requestBody?.content['application/json'].example;
  return [
    `curl -s${method === 'get' || (method === 'post' && body !== undefined) ? '' : ` -X ${method.toUpperCase()}`} ${quoted(url)}`,
    ...(operation['x-access'] === 'public' ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(body === undefined
      ? []
      : [`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`]),
  ].join(' \\\n  ');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

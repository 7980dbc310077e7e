import { hash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { CONDITIONS } from './conditions.ts';
import { PROJECTS, type Project } from './projects.ts';

/** A report about one project's licence. */
export interface Report {
  /** File name. */
  name: string;
  text: string;
}

/** One question; `item` counts from "1", so that item "215" is question 215. */
export interface Question {
  item: string;
  question: string;
  /** File name of the report that answers it. */
  document: string;
}

/** The reports, always the same. */
export function licenceReports(): Report[] {
  return PROJECTS.map((project, index) => ({ name: fileName(index), text: reportText(project) }));
}

/** The first `count` questions; from the 401st on they ask again, in other words. */
export function licenceQuestions(count: number): Question[] {
  return Array.from({ length: count }, (_, index) => {
    const project = index % PROJECTS.length;
    const condition = Math.floor(index / PROJECTS.length) % CONDITIONS.length;
    const round = Math.floor(index / (PROJECTS.length * CONDITIONS.length));
    const question = at(CONDITIONS, condition).asks(at(PROJECTS, project));
    return {
      item: String(index + 1),
      question: round === 0 ? question : `Consulta ${round + 1}: ${question}`,
      document: fileName(project),
    };
  });
}

function reportText(project: Project): string {
  const lines = CONDITIONS.map(({ says, context }, index) => {
    const wordings = says(project, figureOf(project.name, index));
    const wording = at(wordings, figureOf(`${project.name}, wording`, index) % wordings.length);
    return `${index + 1}. ${wording} ${context}`;
  });
  return [
    ...opening(project),
    '',
    ...lines.flatMap((line) => [line, '']),
    'Este relatório é fictício e serve apenas de exemplo.',
    '',
  ].join('\n');
}

function opening({ name, kind, city, river, agency }: Project): string[] {
  const openings = [
    [
      `O empreendimento ${name}, ${kind} em ${city}, às margens do ${river}, obteve licença do órgão ${agency}.`,
      'As condicionantes abaixo foram extraídas do documento e resumidas pela equipe técnica.',
    ],
    [
      `A pedido do empreendedor, resumem-se aqui as condicionantes impostas pelo órgão ${agency} a ${name}.`,
      `Trata-se de ${kind} em ${city}, com captação e lançamento no ${river}.`,
    ],
    [
      `Em vistoria a ${name}, ${kind} no município de ${city}, a equipe conferiu as exigências da licença.`,
      `Seguem as condicionantes que o órgão ${agency} fixou, na ordem do documento.`,
    ],
  ];
  return [
    `Relatório de condicionantes: ${name}.`,
    '',
    ...at(openings, figureOf(`${name}, opening`, 0) % openings.length),
  ];
}

/** A whole number from 0 to 49 that belongs to a project and a condition. */
function figureOf(project: string, condition: number): number {
  return Number.parseInt(hash('sha256', `${project} ${condition}`).slice(0, 8), 16) % 50;
}

function fileName(project: number): string {
  return `relatorio-${String(project + 1).padStart(2, '0')}.txt`;
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`no element ${index}`);
  return found;
}

/** `node generate.ts --tasks 400 --out FOLDER` writes `questions.jsonl` and `reports/`. */
function main(): void {
  const { values } = parseArgs({
    options: { tasks: { type: 'string', default: '400' }, out: { type: 'string', default: '.' } },
  });
  const reports = join(values.out, 'reports');
  mkdirSync(reports, { recursive: true });
  for (const { name, text } of licenceReports()) writeFileSync(join(reports, name), text);
  const lines = licenceQuestions(Number(values.tasks)).map((question) => `${JSON.stringify(question)}\n`);
  writeFileSync(join(values.out, 'questions.jsonl'), lines.join(''));
}

if (import.meta.main) main();

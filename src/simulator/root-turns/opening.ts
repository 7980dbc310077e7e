import { gathering, type Subject } from './gathering.ts';

type Opening = (subject: Subject, subCalls: number) => string;

/**
 * First programs, which ask nothing yet. Each sets up, beside what it gathers, what the later ones use: `pieceAt(n)`,
 * `promptFor(round, part, piece)`, `note(piece, reply)` and `noted()`. `subCalls` is how many pieces will be read.
 */
export const OPENINGS: readonly [Opening, ...Opening[]] = [
  (subject, subCalls) => [gathering(subject), cutting(subCalls), NOTES_IN_A_LIST, LOOK_AT_HITS].join('\n\n'),
  (subject, subCalls) => [gathering(subject), cutting(subCalls), NOTES_IN_A_CLASS, LOOK_AT_SIZES].join('\n\n'),
  (subject, subCalls) => [gathering(subject), cutting(subCalls), NOTES_IN_A_MAP, LOOK_BY_PATTERN].join('\n\n'),
];

function cutting(subCalls: number): string {
  return String.raw`// The telling words that begin a word of the text; six letters are enough to join singular and plural.
function wordsIn(text) {
  const folded = ' ' + fold(text).replace(/[^\p{L}\p{N}]+/gu, ' ');
  return words.filter((word) => folded.includes(' ' + word.slice(0, 6)));
}

// What to read, most promising first: what search has found, then the documents piece by piece.
const pieces = hits
  .flatMap(({ document, text }) => chunk(text, 2400).map((part) => ({ document, text: part })))
  .map((piece) => ({ ...piece, found: wordsIn(piece.text).length }))
  .sort((a, b) => b.found - a.found);
for (const { name, text } of documents) {
  if (pieces.length >= ${subCalls}) break;
  for (const part of chunk(text, 800)) pieces.push({ document: name, text: part });
}
if (pieces.length === 0) pieces.push({ document: 'context', text: '' });
const pieceAt = (n) => pieces[n % pieces.length];

function promptFor(round, part, { document, text }) {
  return [
    'Round ' + round + ', part ' + part + '.',
    '<document name="' + document + '">',
    text,
    '</document>',
    '<question>' + question + '</question>',
  ].join('\n');
}`;
}

const NOTES_IN_A_LIST = `// Replies, with the document each is about.
const notes = [];
function note({ document }, reply) {
  if (reply) notes.push({ document, text: reply });
}
const noted = () => notes;`;

const NOTES_IN_A_CLASS = `class Notebook {
  #notes = [];

  add(document, text) {
    this.#notes.push({ document, text });
  }

  get all() {
    return [...this.#notes];
  }
}
const notebook = new Notebook();
const note = (piece, reply) => {
  if (reply) notebook.add(piece.document, reply);
};
const noted = () => notebook.all;`;

const NOTES_IN_A_MAP = `// Each reply once, with the documents it came from.
const sources = new Map();
function note(piece, reply) {
  if (!reply) return;
  if (!sources.has(reply)) sources.set(reply, new Set());
  sources.get(reply).add(piece.document);
}
function noted() {
  return [...sources].flatMap(([text, names]) => [...names].map((document) => ({ document, text })));
}`;

const LOOK_AT_HITS = `print(documents.length + ' documents, ' + hits.length + ' passages found');
for (const { document, text } of hits.slice(0, 3)) print(document + ': ' + text.slice(0, 160));`;

const LOOK_AT_SIZES = `for (const { name, text } of documents.slice(0, 10)) print(name, text.length);
print(pieces.length, 'pieces to read; the first has', wordsIn(pieceAt(0).text).join(', ') || 'no telling word');`;

const LOOK_BY_PATTERN = String.raw`print(documents.length, 'documents,', pieces.length, 'pieces');
const figures = search(/\b\d+\b/, 3).map(({ document, text }) => document + ': ' + text.slice(0, 120));
print(figures.length > 0 ? figures.join('\n') : 'no figures');`;
